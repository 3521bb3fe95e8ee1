import { expect, test } from 'vitest'
import { createBucket } from '../../src/relay/aggregate.ts'
import { moveFloor, planReads } from '../../src/relay/read-plan.ts'

const taken = { epoch: '1', rescan: '0', suspects: 0, suspected: null }
const full = () =>
  Object.assign(createBucket({ ...taken, bucket: 7 }, 800), { floor: 5_000n, loaded: 1_500, highest: 4_000n })
const idle = () => createBucket({ ...taken, bucket: 8 }, 8)
const limits = (buckets: ReturnType<typeof full>[], passing: boolean) =>
  planReads(buckets, 0, { room: 800, passing }).map(({ limit }) => limit)

test('a bucket of which rows are passed leaves the others of the same read something, and is read in small parts', () => {
  expect(limits([full(), idle()], false)).toEqual([2_300])
  expect(limits([full(), idle()], true)).toEqual([256, 8])
})

test('what is in memory above where a bucket is read may come again, and is no part of what is asked for', () => {
  expect(limits([{ ...full(), highest: 6_000n }], true)).toEqual([256 + 1_500])
})

test('while nothing but rows that stay in the table comes of a bucket, it is read without their payloads', () => {
  const bucket = full()
  const marks = { decided: 10_000n, recent: 0n }
  const read = (returned: { rows: number; added: number; cut: boolean }) => {
    const [request] = planReads([bucket], 0, { room: 800, passing: true })
    moveFloor(bucket, request!, { ...returned, last: request!.floor + BigInt(returned.rows) }, marks, 800)
    return request!.payloads
  }
  expect(read({ rows: 256, added: 0, cut: false })).toBe(true)
  expect(read({ rows: 256, added: 0, cut: false })).toBe(false)
  // One of them is wanted: it comes with its payload.
  expect(read({ rows: 17, added: 0, cut: true })).toBe(false)
  expect(read({ rows: 256, added: 239, cut: false })).toBe(true)
  expect(read({ rows: 9, added: 0, cut: false })).toBe(true)
  expect(read({ rows: 0, added: 0, cut: false })).toBe(true)
})
