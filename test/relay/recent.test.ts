import { expect, test } from 'vitest'
import { createRecent } from '../../src/relay/recent.ts'

test('is what was drawn a second ago, and not before that is known', () => {
  const recent = createRecent()
  for (let at = 0; at <= 2_000; at += 50) {
    recent.add({ drawn: BigInt(at), open: [] }, at)
    expect(recent.position).toBe(at < 1_000 ? 0n : BigInt(at - 1_000))
  }
  recent.add({ drawn: 9_000n, open: [] }, 9_000)
  expect(recent.position).toBe(2_000n)
  recent.reset()
  expect(recent.position).toBe(0n)
})

test('tells the end of a transaction that had been open for a second, once, and of no shorter one', () => {
  const recent = createRecent()
  const ends: number[] = []
  for (let at = 0; at <= 5_000; at += 50) {
    const open = [...(at >= 500 && at < 3_000 ? ['long'] : []), `short ${Math.floor(at / 300)}`]
    if (recent.add({ drawn: BigInt(at), open }, at)) ends.push(at)
  }
  expect(ends).toEqual([3_000])
})
