import { describe, expect, test } from 'vitest'
import type { Share } from '../../src/relay/aggregate.ts'
import { Shares } from '../../src/relay/shares.ts'

function fill(shares: Shares, share: Share): number {
  let count = 0
  while (shares.room(share) > 0) {
    shares.add(share, 1)
    count++
  }
  return count
}

describe('the memory', () => {
  const away = new Set<string>()
  const create = (...destinations: string[]) => {
    away.clear()
    const isAway = (name: string) => away.has(name)
    return new Shares({ capacity: 1_000, maxBytes: 1_000_000, destinations, isAway })
  }

  test('is all for a destination that is alone, also beside others that take nothing', () => {
    const alone = create('a')
    expect(fill(alone, alone.of('a'))).toBe(1_000)
    expect(alone.readable(false)).toBe(0)
    expect(alone.readable(true)).toBe(0)
    const beside = create('a', 'b', 'c')
    expect(fill(beside, beside.of('a'))).toBe(1_000)
  })

  test('leaves room for one more, however many are full', () => {
    const names = Array.from({ length: 8 }, (_, i) => `d-${i}`)
    const shares = create(...names)
    const got = names.map((name) => fill(shares, shares.of(name)))
    expect(got).toEqual([1_000, 500, 250, 125, 62, 31, 16, 8])
    // Whoever has more than is left gets nothing until it has less: in the end all have the same.
    for (let round = 0; round < 2_000; round++) {
      for (const share of names.map((name) => shares.of(name))) {
        if (share.events > 0) shares.remove(share, 1)
        fill(shares, share)
      }
    }
    const fair = names.map((name) => shares.of(name).events)
    for (const events of fair) expect(Math.abs(events - 2_000 / 9)).toBeLessThan(20)
  })

  test('gives one that is away only what it needs for probes, and nobody waits for it', () => {
    const shares = create('a', 'b')
    const [a, b] = [shares.of('a'), shares.of('b')]
    away.add('a')
    expect(fill(shares, a)).toBe(32)
    expect(shares.readable(false)).toBe(0)
    expect(shares.readable(true)).toBe(shares.room(b))
    shares.remove(a, 1)
    // With less than that it may be read of, and does not make a read small.
    expect(shares.readable(false)).toBe(shares.room(b))
    b.owing++
    expect(shares.readable(false)).toBe(32)
    expect(fill(create('a'), create('a').of('a'))).toBe(1_000)
  })

  test('is counted in characters, too', () => {
    const shares = create('a', 'b')
    const [a, b] = [shares.of('a'), shares.of('b')]
    shares.add(a, 500_000)
    expect(shares.room(a)).toBe(0)
    expect(shares.room(b)).toBeGreaterThan(0)
    shares.remove(a, 500_000)
    expect(shares.room(a)).toBe(1_000)
  })

  test('is read into when all have room, or, past those without, when somebody has', () => {
    const shares = create('a', 'b')
    const [a, b] = [shares.of('a'), shares.of('b')]
    fill(shares, a)
    expect(shares.readable(false)).toBe(0)
    expect([shares.isClosed(a), shares.isClosed(b)]).toEqual([false, false])
    expect(shares.readable(true)).toBe(shares.room(b))
    expect([shares.isClosed(a), shares.isClosed(b)]).toEqual([true, false])
    // Once something of it was left in the table, nobody waits for it.
    a.owing++
    expect(shares.readable(false)).toBe(shares.room(b))
    expect(shares.isClosed(a)).toBe(true)
    b.owing++
    expect(shares.readable(true)).toBe(0)
  })

  test('is read into again when there is room for a third of what is there', () => {
    const shares = create('a')
    const a = shares.of('a')
    fill(shares, a)
    for (let i = 0; i < 249; i++) shares.remove(a, 1)
    expect(shares.readable(false)).toBe(0)
    shares.remove(a, 1)
    expect(shares.readable(false)).toBe(250)
  })
})
