import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createLedger, whole } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { runCli } from '../support/processes.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startRelay } from './fixtures/relay-process.ts'
import { slowNowAndThen, startSink } from './fixtures/sink.ts'
import { untilSettled } from './fixtures/table.ts'

interface Row {
  id: string
  aggregate: string
  state: 'dead' | 'published' | 'pending'
  attempts: number
  error: string | null
  crashes: number
  /** When the state was committed, milliseconds of the epoch. */
  committed: number
}

/** All events in order. */
function readRows(database: TestDatabase): Promise<Row[]> {
  return database.rows<Row>(
    `SELECT id, aggregate_id AS aggregate, attempts, crashes, last_error AS error,
            CASE WHEN processed_at IS NOT NULL THEN 'published' WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'pending' END AS state,
            (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::float8 AS committed
     FROM "waybill".outbox_events ORDER BY position`,
  )
}

/** Part of all events, chosen by their ids. */
const isChosen = (id: string, share: number) => parseInt(id.slice(0, 4), 16) < share * 65_536

describe('dead letters, while relays are killed', () => {
  test.for([
    ['continue', 0.03],
    ['hold', 0.015],
  ] as const)(
    'afterDeadLetter: %s: nobody overtakes an event before its dead letter is committed',
    { timeout: 120_000 * repeat },
    async ([afterDeadLetter, share]) => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      const usual = slowNowAndThen(random)
      let refusing = true
      sink.answer = (message) => {
        if (!refusing || !isChosen(message.id, share)) return usual(message)
        // Some for good, others again and again.
        return isChosen(message.id, share / 2) ? 'reject' : 'retry'
      }
      const start = () =>
        startRelay({
          ...{ database, sink },
          relay: { batchSize: 20, maxAttempts: 8, afterDeadLetter, outageGraceMs: 500, retryMaxMs: 50 },
        })
      const relays: FaultRelay[] = [start(), start(), start()]
      const living = [...relays]
      const writers = ledger.startWriters({ aggregates: 40 })
      await sink.untilDistinct(50)
      for (let round = 0; round < 8 * repeat; round++) {
        await delay(random.between(50, 800))
        const [victim] = living.splice(random.between(0, living.length - 1), 1)
        victim!.strike('SIGKILL')
        await victim!.process.exit
        const next = start()
        relays.push(next)
        living.push(next)
      }
      await writers.stop()

      /** Whatever is neither published nor dead waits behind a dead letter. */
      async function untilQuiet(): Promise<Row[]> {
        for (;;) {
          const rows = await readRows(database)
          const held = new Set<string>()
          const open = rows.filter((row) => {
            if (row.state === 'dead' && afterDeadLetter === 'hold') held.add(row.aggregate)
            return row.state === 'pending' && !held.has(row.aggregate)
          })
          if (open.length === 0) return rows
          await delay(100)
        }
      }
      const rows = await untilQuiet()
      const dead = rows.filter(({ state }) => state === 'dead')
      expect(dead.length).toBeGreaterThan(2)
      const unexpected = dead.filter(
        ({ id, attempts }) => !isChosen(id, share) || attempts !== (isChosen(id, share / 2) ? 0 : 8),
      )
      expect(unexpected).toEqual([])
      const others = rows.filter(({ state }) => state !== 'dead')
      expect(others.filter(({ attempts, crashes }) => attempts + crashes > 0)).toEqual([])

      const sent = new Map(sink.arrivals.toReversed().map(({ id, sentAt }) => [id, sentAt]))
      for (const letter of dead) {
        const own = rows.filter(({ aggregate }) => aggregate === letter.aggregate)
        const later = own.slice(own.indexOf(letter) + 1).filter(({ id }) => sent.has(id))
        if (afterDeadLetter === 'hold') expect(later).toEqual([])
        else for (const { id } of later) expect(sent.get(id)!).toBeGreaterThanOrEqual(letter.committed - 1)
      }
      const { written, lost, outOfOrder, phantoms, altered } = await ledger.verdict()
      expect({ outOfOrder, phantoms, altered }).toEqual({ outOfOrder: 0, phantoms: 0, altered: 0 })
      expect(lost).toBe(rows.filter(({ state }) => state !== 'published').length)
      process.stdout.write(`${written} events, ${dead.length} dead letters, ${relays.length - 3} killed\n`)

      // All of them back at their old places: with `hold` nobody has overtaken them.
      refusing = false
      const retried = await runCli(['dead', 'retry', '--all', '--allow-older'], {
        database,
      })
      expect(retried, retried.stderr).toMatchObject({ code: 0 })
      await ledger.untilDelivered()
      await untilSettled(database)
      for (const relay of living) expect(await relay.stop()).toEqual({ code: 0, signal: null })
      const verdict = await ledger.verdict()
      const { duplicates } = verdict
      if (afterDeadLetter === 'hold') expect(verdict).toEqual({ ...whole(written), duplicates })
      else expect(verdict).toMatchObject({ lost: 0, delivered: written })
    },
  )
})
