import { describe, expect, test } from 'vitest'
import { insertEvents } from '../relay/harness.ts'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startRelay, stopStarted } from './fixtures/relay-process.ts'
import { slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, untilSettled } from './fixtures/table.ts'

interface Odd {
  id: string
  dead: boolean
  published: boolean
  last_error: string | null
}

describe('a relay that dies under load, by an event that kills whoever publishes it', () => {
  test(
    'and one that is killed from outside: with maxAttempts 1 too, no event is blamed for one death',
    { repeats: repeat - 1 },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      sink.answer = slowNowAndThen(random)
      const start = () =>
        startRelay({ database, sink, relay: { leaseMs: 1_000, batchSize: 20, maxAttempts: 1 } })
      const first = start()
      const writers = ledger.startWriters({ aggregates: 60 })
      await sink.untilDistinct(100)
      first.strike('SIGKILL')
      await first.process.exit
      const second = start()
      await second.until('relay.crash_suspected')
      await writers.stop()
      await ledger.untilDelivered()
      await untilSettled(database)
      expect(await stopStarted(second)).toEqual({ code: 0, signal: null })
      await expectKept({ ledger, database, sink, relays: [first, second] })
    },
  )

  test.for([
    [3, 1],
    [4, 2],
  ] as const)(
    'that event is a dead letter after at most %i deaths, and takes nobody with it (%i of them)',
    { repeats: repeat - 1 },
    async ([maxAttempts, killers]) => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      sink.answer = slowNowAndThen(random)
      const relays: FaultRelay[] = []
      const living = new Set<FaultRelay>()
      let deaths = 0
      let stopping = false

      /** As a supervisor would: whenever it dies it starts again. */
      async function supervise(): Promise<void> {
        while (!stopping) {
          const relay = startRelay({
            ...{ database, sink },
            relay: { leaseMs: 1_000, batchSize: 50, maxAttempts },
          })
          relays.push(relay)
          living.add(relay)
          const { signal } = await relay.process.exit
          relay.struck('death')
          living.delete(relay)
          if (signal === 'SIGKILL') deaths++
        }
      }
      const supervised = [supervise(), supervise()]
      const writers = ledger.startWriters({ aggregates: 60 })
      await sink.untilDistinct(100)
      const odd = await insertEvents(
        database,
        Array.from({ length: killers }, (_, k) => [
          { aggregate: `odd-${k}`, type: 'neighbour' },
          { aggregate: `odd-${k}`, type: 'fault.kill' },
          { aggregate: `odd-${k}`, type: 'neighbour' },
        ]).flat(),
      )
      const readOdd = () =>
        database.rows<Odd>(
          `SELECT id, dead_at IS NOT NULL AS dead, processed_at IS NOT NULL AS published, last_error
           FROM "waybill".outbox_events WHERE id = ANY ($1) ORDER BY position`,
          [odd],
        )
      while ((await readOdd()).filter(({ dead }) => dead).length < killers) {
        expect(deaths).toBeLessThanOrEqual(maxAttempts * killers)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      await writers.untilCommitted(writers.committed + 50)
      await writers.stop()
      await ledger.untilDelivered()
      await untilSettled(database)
      stopping = true
      // Before that they do not listen to signals yet.
      for (const relay of living) await relay.until('relay.started')
      for (const relay of living) relay.process.signal('SIGTERM')
      await Promise.all(supervised)

      expect(deaths).toBeGreaterThanOrEqual(2)
      expect(deaths).toBeLessThanOrEqual(maxAttempts * killers)
      const rows = await readOdd()
      for (const [index, row] of rows.entries()) {
        if (index % 3 === 1) {
          expect(row).toMatchObject({ dead: true, published: false })
          expect(row.last_error).toContain(`ended the relay's process ${maxAttempts} times in a row`)
        } else expect(row).toMatchObject({ dead: false, published: true })
      }
      const neighbours = odd.filter((_, index) => index % 3 !== 1)
      const first = [...new Set(sink.arrivals.map(({ id }) => id))].filter((id) => neighbours.includes(id))
      for (let k = 0; k < killers; k++) {
        const own = neighbours.slice(2 * k, 2 * k + 2)
        expect(first.filter((id) => own.includes(id))).toEqual(own)
      }
      const { written, duplicates } = await expectKept({ ledger, database, sink, relays })
      process.stdout.write(`${deaths} deaths, ${written} events, ${duplicates} twice\n`)
    },
  )
})
