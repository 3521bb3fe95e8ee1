import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { insertEvents, readEvents } from '../relay/harness.ts'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { projectFolder } from '../support/processes.ts'
import { startReceiver } from '../support/receiver.ts'
import { eventually } from './kit.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startCliRelay, startRelay } from './fixtures/relay-process.ts'
import { slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, readOwners, untilSettled } from './fixtures/table.ts'

const tenMinutesMs = 600_000

/** For a process whose clock is wrong by so much. */
const shifted = (ms: number) => ({
  node: ['--import', `${projectFolder}test/faults/fixtures/shifted-clock.mjs`],
  env: { CLOCK_SHIFT_MS: String(ms) },
})

/** By how many minutes the clock of a relay is wrong, as its log shows. */
async function minutesOff(relay: FaultRelay): Promise<number> {
  const { time } = await relay.until('relay.started')
  return Math.round((Date.parse(time) - Date.now()) / 60_000)
}

describe('clocks that are off by ten minutes', () => {
  test(
    'two relays, one behind and one ahead, share the buckets, deliver everything, and replace each other',
    { repeats: repeat - 1 },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      sink.answer = slowNowAndThen(random)
      const relay = { leaseMs: 3_000, batchSize: 20 }
      const behind = startRelay({ database, sink, name: 'behind', relay, ...shifted(-tenMinutesMs) })
      const ahead = startRelay({ database, sink, name: 'ahead', relay, ...shifted(tenMinutesMs) })
      expect([await minutesOff(behind), await minutesOff(ahead)]).toEqual([-10, 10])
      const writers = ledger.startWriters({ aggregates: 40 })
      await eventually('they share', async () => (await readOwners(database)).join() === '32,32')
      await sink.untilDistinct(300)
      // For longer than a lease: neither takes the other for dead, or itself for alive without renewing.
      await delay(4_000)
      expect(await readOwners(database)).toEqual([32, 32])
      for (const one of [behind, ahead]) {
        expect(one.logged('relay.crash_suspected')).toEqual([])
        expect(one.logged('relay.lease_lost')).toEqual([])
        expect(sink.arrivals.filter(({ relay: name }) => name === one.name).length).toBeGreaterThan(50)
      }
      ahead.strike('SIGKILL')
      const began = performance.now()
      await behind.until('relay.buckets', ({ owned }) => owned === 64)
      // Its lease of three seconds and the next look.
      expect(performance.now() - began).toBeLessThan(8_000)
      await writers.stop()
      await ledger.untilDelivered()
      await untilSettled(database)
      expect(await behind.stop()).toEqual({ code: 0, signal: null })
      await expectKept({ ledger, database, sink, relays: [behind, ahead] })
    },
  )

  test.for([
    ['behind', -tenMinutesMs],
    ['ahead', tenMinutesMs],
  ] as const)('%s: retries wait as long as the database says, latencies are not off', async ([, shiftMs]) => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    const relay = await startCliRelay({
      database,
      destinations: { hook: { type: 'webhook', url: `${receiver.origin}/events` } },
      ...shifted(shiftMs),
    })
    expect(Math.abs(await minutesOff(relay))).toBe(10)
    // Only now: a start may take as long as the pause.
    await relay.until('relay.buckets', ({ owned }) => owned === 64)
    const began = performance.now()
    await database.query(
      `INSERT INTO "waybill".outbox_events
         (aggregate_type, aggregate_id, event_type, payload, attempts, last_attempt_at, retry_after)
       VALUES ('order', 'waiting', 'order.created', '{}', 1, now(), clock_timestamp() + interval '3 seconds'),
              ('order', 'other', 'order.created', '{}', 0, NULL, NULL)`,
    )
    await receiver.waitFor(2)
    const ms = performance.now() - began
    expect(receiver.requests.map(({ headers }) => headers['x-waybill-aggregate-id'])).toEqual([
      'other',
      'waiting',
    ])
    expect(ms).toBeGreaterThan(2_900)
    expect(ms).toBeLessThan(9_000)

    // A failure of now: its pause is counted from the database's clock.
    let fail = true
    receiver.respond = () => {
      if (!fail) return 204
      fail = false
      return 500
    }
    const [failing] = await insertEvents(database, [{ aggregate: 'failing' }])
    await untilSettled(database)
    const row = (await readEvents(database)).find(({ id }) => id === failing)
    expect(row).toMatchObject({ published: true, last_error: expect.stringContaining('500') })

    const { url } = await relay.until('admin.listening')
    const metrics = await (await fetch(`${url}/metrics`)).text()
    const sum = Number(/^outbox_delivery_latency_seconds_sum\S* (\S+)$/m.exec(metrics)![1])
    const count = Number(/^outbox_delivery_latency_seconds_count\S* (\S+)$/m.exec(metrics)![1])
    expect(count).toBe(3)
    expect(sum).toBeGreaterThan(2.5)
    expect(sum).toBeLessThan(30)
    expect(await relay.stop()).toEqual({ code: 0, signal: null })
  })

  test.for([
    ['behind', -tenMinutesMs],
    ['ahead', tenMinutesMs],
  ] as const)('%s: retention removes what is old on the database, and nothing else', async ([, shiftMs]) => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    await insertEvents(database, [{ aggregate: 'old' }, { aggregate: 'young' }])
    await database.query(
      `UPDATE "waybill".outbox_events
       SET created_at = t.at, processed_at = t.at
       FROM (VALUES ('old', clock_timestamp() - interval '1 day 5 minutes'),
                    ('young', clock_timestamp() - interval '23 hours 55 minutes')) AS t(aggregate, at)
       WHERE aggregate_id = t.aggregate`,
    )
    const relay = await startCliRelay({
      database,
      destinations: { hook: { type: 'webhook', url: `${receiver.origin}/events` } },
      configuration: { retention: { processedDays: 1 } },
      ...shifted(shiftMs),
    })
    expect(Math.abs(await minutesOff(relay))).toBe(10)
    expect(await relay.until('prune.finished')).toMatchObject({ deleted: 1 })
    expect(await readEvents(database)).toMatchObject([{ aggregate_id: 'young', published: true }])
    expect(await relay.stop()).toEqual({ code: 0, signal: null })
  })
})
