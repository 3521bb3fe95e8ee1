import { describe, expect, it } from 'vitest'
import { createWindowSize } from '../../src/operations/window.ts'

describe('the size of a window', () => {
  const windowAfter = (...tookMs: readonly number[]) => {
    const window = createWindowSize({ first: 1_000, most: 50_000 })
    for (const ms of tookMs) window.took(ms)
    return window.rows
  }

  it('grows fourfold while steps are quick, up to the largest', () => {
    expect([windowAfter(), windowAfter(2), windowAfter(2, 2), windowAfter(2, 2, 2, 2)]).toEqual([
      1_000, 4_000, 16_000, 50_000,
    ])
  })

  it('stays about where a step takes a quarter of a second', () => {
    expect(windowAfter(250)).toBe(1_000)
  })

  it('shrinks at once when a step was slow, so that the next one is not', () => {
    expect(windowAfter(2, 2, 2, 5_000)).toBe(2_500)
  })

  it('never vanishes', () => {
    expect(windowAfter(30_000, 30_000, 30_000)).toBe(100)
  })
})
