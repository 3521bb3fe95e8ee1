import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startRelay, stopStarted } from './fixtures/relay-process.ts'
import { slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, terminateSessions, untilSettled } from './fixtures/table.ts'

const rounds = 12 * repeat

describe('relays that are killed at random moments', () => {
  test.for([
    ['per-call', 'alone'],
    ['batch', 'together with their sessions in the database'],
  ] as const)(
    'lose nothing, keep every aggregate in order and repeat only what was under way (%s, %s)',
    { timeout: 120_000 * repeat },
    async ([ordering, how]) => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      sink.answer = slowNowAndThen(random)
      const start = () => startRelay({ database, sink, ordering, relay: { batchSize: 20 } })
      const relays: FaultRelay[] = [start(), start(), start()]
      const living = [...relays]
      const writers = ledger.startWriters({ aggregates: 40 })
      await sink.untilDistinct(50)
      let terminated = 0
      for (let round = 0; round < rounds; round++) {
        await delay(random.between(20, 900))
        if (how !== 'alone') terminated += await terminateSessions(database, random.next())
        if (how !== 'alone' && random.next() < 0.5) continue
        const [victim] = living.splice(random.between(0, living.length - 1), 1)
        victim!.strike('SIGKILL')
        expect(await victim!.process.exit).toEqual({ code: null, signal: 'SIGKILL' })
        const next = start()
        relays.push(next)
        living.push(next)
      }
      await writers.untilCommitted(writers.committed + 100)
      await writers.stop()
      await ledger.untilDelivered()
      await untilSettled(database)
      for (const relay of living) expect(await stopStarted(relay)).toEqual({ code: 0, signal: null })

      // The faults happened: relays died with buckets in their hands, sessions ended under others.
      expect(relays.flatMap((relay) => relay.logged('relay.crash_suspected')).length).toBeGreaterThan(0)
      if (how !== 'alone') expect(terminated).toBeGreaterThan(rounds)
      const { written, duplicates } = await expectKept({ ledger, database, sink, relays })
      const killed = relays.length - living.length
      process.stdout.write(
        `${killed} killed, ${terminated} sessions ended, ${written} events, ${duplicates} twice\n`,
      )
    },
  )
})
