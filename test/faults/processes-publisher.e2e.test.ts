import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { insertEvents } from '../relay/harness.ts'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { startRelay, stopStarted } from './fixtures/relay-process.ts'
import { slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, untilSettled } from './fixtures/table.ts'

/** What becomes of the event in the middle. */
const oddities = {
  'fault.throw.undefined': 'dead',
  'fault.throw.nul': 'dead',
  'fault.throw.huge': 'dead',
  'fault.throw.circular': 'dead',
  'fault.reject.undefined': 'dead',
  'fault.reject.nul': 'dead',
  'fault.reject.huge': 'dead',
  'fault.reject.circular': 'dead',
  'fault.nack': 'dead',
  'fault.hang': 'dead',
  'fault.late': 'published',
} as const

interface Row {
  aggregate_id: string
  event_type: string
  state: 'pending' | 'published' | 'dead'
  attempts: number
  error: string | null
}

describe('a publisher that misbehaves, with two relays under load', { repeats: repeat - 1 }, () => {
  test('costs the event in question what is promised, and no other anything', async () => {
    const random = createRandom()
    const database = await createTestDatabase()
    const ledger = await createLedger(database)
    const sink = await startSink(ledger)
    const usual = slowNowAndThen(random)
    const tries = new Map<string, number>()
    sink.answer = (message) => {
      const { type, id } = message
      if (!type.startsWith('fault.')) return usual(message)
      tries.set(id, (tries.get(id) ?? 0) + 1)
      if (type === 'fault.hang') return new Promise(() => undefined)
      if (type === 'fault.nack') return 'retry'
      // The answer to the first try comes when the relay has long given it up.
      return tries.get(id) === 1 ? delay(2_000).then(() => 'published') : 'published'
    }
    const tuning = { batchSize: 20, maxAttempts: 3, publishTimeoutMs: 700, leaseMs: 5_000 }
    const relays = [1, 2].map(() => startRelay({ database, sink, relay: tuning }))
    for (const relay of relays) await relay.until('relay.buckets', ({ owned }) => owned === 32)
    const writers = ledger.startWriters({ aggregates: 60 })
    await sink.untilDistinct(50)
    const began = sink.arrivals.length
    await insertEvents(
      database,
      Object.keys(oddities).flatMap((type) => [
        { aggregate: type, type: 'neighbour' },
        { aggregate: type, type },
        { aggregate: type, type: 'neighbour' },
      ]),
    )
    const read = () =>
      database.rows<Row>(
        `SELECT aggregate_id, event_type, attempts, last_error AS error,
                CASE WHEN processed_at IS NOT NULL THEN 'published' WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'pending' END AS state
         FROM "waybill".outbox_events WHERE event_type <> 'ledger.counted' ORDER BY position`,
      )
    while ((await read()).some(({ state }) => state === 'pending')) await delay(100)
    // Others went on all the while.
    expect(sink.arrivals.length - began).toBeGreaterThan(300)
    await writers.stop()
    await ledger.untilDelivered()
    await untilSettled(database)

    const rows = await read()
    for (const [type, fate] of Object.entries(oddities)) {
      const own = rows.filter((row) => row.aggregate_id === type)
      expect(
        own.map(({ state }) => state),
        type,
      ).toEqual(['published', fate, 'published'])
      const odd = own[1]!
      const isRefused = type.startsWith('fault.reject.')
      if (fate === 'dead') expect(odd.attempts, type).toBe(isRefused ? 0 : 3)
      else expect(odd.attempts, type).toBeLessThanOrEqual(1)
      if (fate !== 'dead') continue
      expect(odd.error!.length, type).toBeGreaterThan(0)
      expect(odd.error!.length, type).toBeLessThanOrEqual(2_000)
      expect(odd.error, type).not.toContain('\u0000')
    }
    for (const relay of relays) expect(await stopStarted(relay)).toMatchObject({ signal: null })
    expect(await expectKept({ ledger, database, sink, relays })).toMatchObject({ duplicates: 0 })
    expect(relays.flatMap((relay) => relay.logged('relay.lease_lost'))).toEqual([])
  })
})
