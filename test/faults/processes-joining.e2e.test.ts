import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createLedger, whole } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startRelay, stopStarted } from './fixtures/relay-process.ts'
import { slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, readOwners, untilSettled } from './fixtures/table.ts'

/** Milliseconds until so many relays own all buckets, none of them more than its fair share. */
async function untilShared(database: TestDatabase, relays: number): Promise<number> {
  const began = performance.now()
  const share = Math.ceil(64 / relays)
  for (;;) {
    const owners = await readOwners(database)
    const all = owners.reduce((sum, owned) => sum + owned, 0)
    if (owners.length === relays && all === 64 && owners.at(-1)! <= share) return performance.now() - began
    await delay(25)
  }
}

describe('relays that come and go under load', () => {
  test(
    'share the buckets evenly within seconds of each change, and deliver everything in order',
    { timeout: 120_000 * repeat },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const sink = await startSink(ledger)
      sink.answer = slowNowAndThen(random)
      const start = () => startRelay({ database, sink, relay: { leaseMs: 2_000, batchSize: 20 } })
      const relays: FaultRelay[] = []
      const living: FaultRelay[] = []
      const times: string[] = []
      const writers = ledger.startWriters({ aggregates: 40 })

      async function change(what: 'join' | 'SIGTERM' | 'SIGKILL'): Promise<void> {
        await delay(random.between(0, 400))
        if (what === 'join') {
          const relay = start()
          relays.push(relay)
          living.push(relay)
          await relay.until('relay.started')
        } else {
          const [relay] = living.splice(random.between(0, living.length - 1), 1)
          if (what === 'SIGKILL') relay!.strike(what)
          const exit = what === 'SIGKILL' ? await relay!.process.exit : await relay!.stop()
          expect(exit).toEqual(
            what === 'SIGKILL' ? { code: null, signal: 'SIGKILL' } : { code: 0, signal: null },
          )
        }
        const ms = await untilShared(database, living.length)
        times.push(`${what} → ${living.length}: ${Math.round(ms)} ms`)
        // Dead ones are missed when their lease has run out; the rest is a matter of rounds.
        expect(ms).toBeLessThan(8_000)
      }

      for (let round = 0; round < repeat; round++) {
        while (living.length < 2) await change('join')
        await change('join')
        await change('SIGKILL')
        await change('join')
        await change('join')
        await change('join')
        expect(living).toHaveLength(5)
        await change('SIGTERM')
        await change('SIGKILL')
        await change('SIGTERM')
      }
      await writers.untilCommitted(writers.committed + 50)
      await writers.stop()
      await ledger.untilDelivered()
      await untilSettled(database)
      for (const relay of living) expect(await stopStarted(relay)).toEqual({ code: 0, signal: null })
      process.stdout.write(`${times.join(', ')}\n`)
      await expectKept({ ledger, database, sink, relays })
    },
  )

  test('a clean leave hands over at once, at default settings', async () => {
    const database = await createTestDatabase()
    const ledger = await createLedger(database)
    const sink = await startSink(ledger)
    const start = () => startRelay({ database, sink, relay: { leaseMs: 10_000 } })
    const [first, second] = [start(), start()]
    await untilShared(database, 2)
    expect(await first.stop()).toEqual({ code: 0, signal: null })
    const began = performance.now()
    // Nearly every bucket has something to deliver.
    await ledger.write(200, { aggregates: 200 })
    await ledger.untilDelivered()
    const ms = performance.now() - began
    process.stdout.write(`everything delivered ${Math.round(ms)} ms after a clean leave\n`)
    // A lease lasts ten seconds, the next regular round comes within two and a half.
    expect(ms).toBeLessThan(1_500)
    expect(second.logged('relay.crash_suspected')).toEqual([])
    await untilSettled(database)
    expect(await second.stop()).toEqual({ code: 0, signal: null })
    expect(await ledger.verdict()).toEqual(whole(200))
  })
})
