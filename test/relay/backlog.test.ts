import { expect, test } from 'vitest'
import type { OwnedBucket } from '../../src/relay/aggregate.ts'
import { Backlog } from '../../src/relay/backlog.ts'
import type { SourceEvent } from '../../src/relay/source.ts'

function createBacklog(): Backlog {
  return new Backlog({ capacity: 100, destinations: ['out'], isAway: () => false, onReady: () => undefined })
}

function own(backlog: Backlog, epoch: string): OwnedBucket {
  return backlog.own({ bucket: 1, epoch, rescan: '0', suspects: 0, suspected: null })
}

function eventAt(position: bigint): SourceEvent {
  return {
    ...{ bucket: 1, position, id: `e-${position}`, aggregateType: 't', aggregateId: 'a', eventType: 'e' },
    ...{ body: 'a body', headers: '{}', revision: null, operationId: null, createdAtMicros: '0' },
    ...{ replay: null, attempts: 0, crashes: 0, retryInMs: 0 },
  }
}

/** Brings an event into memory and takes it out to be published. */
function start(backlog: Backlog, bucket: OwnedBucket, event: SourceEvent) {
  const share = backlog.shares.of('out')
  const outcome = { destination: 'out', message: {} as never, bytes: event.body.length }
  backlog.insert(event, { bucket, key: 't\u0000a', aggregate: undefined, outcome, share }, 0)
  return backlog.takeHead(bucket.aggregates.get('t\u0000a')!, 1)[0]!
}

test('an event that was not ours to settle is read when its bucket is ours again, also by a read under way', () => {
  const backlog = createBacklog()
  const lost = own(backlog, '1')
  const entry = start(backlog, lost, eventAt(7n))
  backlog.disown(lost)
  const again = own(backlog, '3')
  backlog.beginRead()
  backlog.drop(entry)
  // What came before it in this read.
  start(backlog, again, eventAt(8n))
  expect(backlog.isKnown(eventAt(7n), again)).toBe(false)
})

test('what a read shows as pending and was settled meanwhile is known', () => {
  const backlog = createBacklog()
  const bucket = own(backlog, '1')
  const entry = start(backlog, bucket, eventAt(7n))
  backlog.beginRead()
  backlog.settled(entry)
  expect(backlog.isKnown(eventAt(7n), bucket)).toBe(true)
  backlog.endRead()
  expect(backlog.isKnown(eventAt(7n), bucket)).toBe(false)
})

test('an event that is published leaves the memory but for what its settlement needs', () => {
  const backlog = createBacklog()
  const bucket = own(backlog, '1')
  const share = backlog.shares.of('out')
  const entry = start(backlog, bucket, eventAt(7n))
  expect(share).toMatchObject({ events: 1, bytes: 6 })
  backlog.published(entry)
  expect(share).toMatchObject({ events: 1, bytes: 0 })
  expect(entry).toMatchObject({
    event: { id: 'e-7', body: '' },
    outcome: { destination: 'out', message: null },
  })
  backlog.settled(entry)
  expect(share).toMatchObject({ events: 0, bytes: 0 })
})
