import { expect, test } from 'vitest'
import { Parked } from '../../src/relay/parked.ts'

const key = (i: number) => `order\u0000o-${i}`

test('remembers of each aggregate for whom it waits, and the furthest position that was seen', () => {
  const parked = new Parked(() => true)
  for (let i = 0; i < 5_000; i++) parked.put(key(i), i % 3, BigInt(i))
  for (let i = 0; i < 5_000; i++) {
    const slot = parked.find(key(i))
    expect(slot).toBeGreaterThanOrEqual(0)
    expect(parked.owner(slot)).toBe(i % 3)
  }
  expect(parked.find(key(5_000))).toBe(-1)
  expect(parked.size).toBe(5_000)
})

test('forgets what is below what was brought in, and uses its place again', () => {
  let from = 0n
  const parked = new Parked((_, upTo) => upTo > from)
  for (let i = 0; i < 100_000; i++) {
    parked.put(key(i), 0, BigInt(i + 1))
    // All but the last hundred were brought in.
    from = BigInt(Math.max(0, i - 99))
  }
  expect(parked.find(key(0))).toBe(-1)
  expect(parked.find(key(99_999))).toBeGreaterThanOrEqual(0)
  expect(parked.size).toBeLessThan(1_000)
  parked.purge()
  expect(parked.size).toBe(100)
  for (let i = 99_900; i < 100_000; i++) expect(parked.find(key(i))).toBeGreaterThanOrEqual(0)
})

test('keeps the furthest position when an aggregate waits for another, and starts anew when all was brought in', () => {
  let from = 0n
  const parked = new Parked((_, upTo) => upTo > from)
  parked.put(key(1), 0, 50n)
  parked.put(key(1), 1, 20n)
  from = 30n
  expect(parked.owner(parked.find(key(1)))).toBe(1)
  from = 50n
  expect(parked.find(key(1))).toBe(-1)
  from = 10n
  parked.see(parked.find(key(1)), 70n)
  from = 60n
  expect(parked.find(key(1))).toBeGreaterThanOrEqual(0)
})

test('takes no more than 45 bytes for each of a million aggregates', () => {
  // As they come: spread over the buckets.
  const buckets = Array.from({ length: 64 }, () => new Parked(() => true))
  for (let i = 0; i < 1_000_000; i++) buckets[i % 64]!.put(key(i), 0, BigInt(i))
  const bytes = buckets.reduce((sum, parked) => sum + parked.bytes, 0)
  expect(bytes / 1_000_000).toBeLessThan(45)
  // Two that share a hash are one: of a million spread over 64 tables about two.
  const size = buckets.reduce((sum, parked) => sum + parked.size, 0)
  expect(size).toBeGreaterThan(1_000_000 - 50)
})
