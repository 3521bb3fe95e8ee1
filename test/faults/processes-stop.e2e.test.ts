import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { insertEvents, readEvents } from '../relay/harness.ts'
import { createLedger, whole } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { startReceiver } from '../support/receiver.ts'
import { eventually, readSessions } from './kit.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { type FaultRelay, startCliRelay, startRelay, stopStarted } from './fixtures/relay-process.ts'
import { type Verdict, slowNowAndThen, startSink } from './fixtures/sink.ts'
import { expectKept, readOwners, untilSettled } from './fixtures/table.ts'

/** SIGTERM, the exit and the milliseconds between. */
async function stopped(relay: FaultRelay) {
  const began = performance.now()
  const exit = await relay.stop()
  return { ...exit, ms: performance.now() - began }
}

/** The database behind a proxy. */
async function behindProxy({
  url: direct,
  schema,
}: TestDatabase): Promise<{ url: string; schema: string; proxy: TcpProxy }> {
  const url = new URL(direct)
  const proxy = await createProxy(Number(url.port))
  url.port = String(proxy.port)
  return { url: url.href, schema, proxy }
}

describe('SIGTERM', () => {
  test('again and again under load: nothing is published twice', { timeout: 120_000 * repeat }, async () => {
    const random = createRandom()
    const database = await createTestDatabase()
    const ledger = await createLedger(database)
    const sink = await startSink(ledger)
    sink.answer = slowNowAndThen(random)
    const start = () => startRelay({ database, sink, relay: { batchSize: 20, leaseMs: 5_000 } })
    const relays = [start(), start()]
    const living = [...relays]
    const writers = ledger.startWriters({ aggregates: 40 })
    await sink.untilDistinct(50)
    for (let round = 0; round < 8 * repeat; round++) {
      await delay(random.between(20, 600))
      const [leaving] = living.splice(random.between(0, 1), 1)
      const next = start()
      relays.push(next)
      living.push(next)
      await leaving!.until('relay.started')
      expect(await stopped(leaving!)).toMatchObject({ code: 0, signal: null })
    }
    await writers.stop()
    await ledger.untilDelivered()
    await untilSettled(database)
    for (const relay of living) expect(await stopStarted(relay)).toEqual({ code: 0, signal: null })
    expect(await expectKept({ ledger, database, sink, relays })).toMatchObject({ duplicates: 0 })
    expect(relays.flatMap((relay) => relay.logged('relay.crash_suspected'))).toEqual([])
    expect(await readOwners(database)).toEqual([])
  })

  test('while a call takes longer than the lease, within the grace time: it is waited for and marked once', async () => {
    const database = await createTestDatabase()
    const sink = await startSink()
    const [slow] = await insertEvents(database, [{ aggregate: 'slow' }, { aggregate: 'quick' }])
    let answer!: (verdict: Verdict) => void
    const answered = new Promise<Verdict>((resolve) => (answer = resolve))
    let called = 0
    sink.answer = ({ id }) => (id === slow ? (called++, answered) : 'published')
    const tuning = { leaseMs: 1_000, stopGraceMs: 15_000 }
    const leaving = startRelay({ database, sink, relay: tuning })
    await sink.until(() => called === 1)
    const other = startRelay({ database, sink, relay: tuning })
    await other.until('relay.buckets')
    const exit = stopped(leaving)
    // Twice the lease, and nobody takes the bucket away.
    await delay(2_500)
    answer('published')
    expect(await exit).toMatchObject({ code: 0, signal: null })
    await untilSettled(database)
    expect(called).toBe(1)
    expect(other.logged('relay.crash_suspected')).toEqual([])
    expect(await other.stop()).toEqual({ code: 0, signal: null })
    expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
  })

  test('while a call hangs: ends with 1 after the grace time, and what was confirmed is marked', async () => {
    const database = await createTestDatabase()
    const sink = await startSink()
    const [hung] = await insertEvents(database, [
      { aggregate: 'hung' },
      { aggregate: 'hung' },
      { aggregate: 'other' },
      { aggregate: 'another' },
    ])
    let calls = 0
    sink.answer = ({ id }) => (id === hung && calls++ === 0 ? new Promise(() => undefined) : 'published')
    const relay = startRelay({ database, sink, relay: { stopGraceMs: 1_000 } })
    await sink.untilDistinct(2)
    const { code, ms } = await stopped(relay)
    expect(code).toBe(1)
    expect(ms).toBeGreaterThan(900)
    expect(ms).toBeLessThan(6_000)
    expect(relay.logged('relay.stopped')).toMatchObject([{ clean: false }])
    expect((await readEvents(database)).map((row) => row.published)).toEqual([false, false, true, true])
    expect((await readEvents(database)).every((row) => row.attempts === 0)).toBe(true)
    // What hung may have arrived: it comes again, first of its aggregate.
    const next = startRelay({ database, sink })
    await sink.untilDistinct(4)
    await untilSettled(database)
    expect(sink.arrivals.filter(({ aggregate }) => aggregate === 'hung').map(({ id }) => id)[0]).toBe(hung)
    expect(await next.stop()).toEqual({ code: 0, signal: null })
  })

  test('a second time while a call hangs: ends at once', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver(() => new Promise(() => undefined))
    await insertEvents(database, [{}])
    const relay = await startCliRelay({
      database,
      destinations: { hook: { type: 'webhook', url: `${receiver.origin}/events` } },
      relay: { stopGraceMs: 60_000, publishTimeoutMs: 60_000 },
    })
    await receiver.waitFor(1)
    relay.process.signal('SIGTERM')
    await delay(300)
    const { code, ms } = await stopped(relay)
    expect(code).toBe(1)
    expect(ms).toBeLessThan(2_000)
    await eventually('no session is left', async () => (await readSessions(database)).length === 0)
    expect(await readEvents(database)).toMatchObject([{ published: false, attempts: 0 }])
  })

  test.for(['refused', 'silent'] as const)(
    'while the database is %s: ends soon after the grace time, and says that it was not clean',
    async (how) => {
      const database = await createTestDatabase()
      const { proxy, ...proxied } = await behindProxy(database)
      const receiver = await startReceiver()
      await insertEvents(database, [{ aggregate: 'a' }])
      const relay = await startCliRelay({
        database: proxied,
        destinations: { hook: { type: 'webhook', url: `${receiver.origin}/events` } },
        relay: { stopGraceMs: 1_000 },
      })
      await receiver.waitFor(1)
      await untilSettled(database)
      if (how === 'refused') await proxy.down()
      else proxy.blackhole()
      await relay.until('database.down')
      const { code, ms } = await stopped(relay)
      process.stdout.write(`stopped ${Math.round(ms)} ms after SIGTERM with a database that is ${how}\n`)
      expect(code).toBe(1)
      expect(ms).toBeLessThan(8_000)
    },
  )

  test('while the database is away, which comes back within the grace time: what was confirmed is marked', async () => {
    const database = await createTestDatabase()
    const { proxy, ...proxied } = await behindProxy(database)
    const sink = await startSink()
    let answer!: (verdict: Verdict) => void
    const answered = new Promise<Verdict>((resolve) => (answer = resolve))
    let calls = 0
    sink.answer = () => (calls++, answered)
    await insertEvents(database, [{ aggregate: 'a' }, { aggregate: 'b' }])
    const relay = startRelay({ database: proxied, sink, relay: { leaseMs: 30_000, stopGraceMs: 15_000 } })
    await sink.until(() => calls === 2)
    await proxy.down()
    answer('published')
    await relay.until('database.down')
    const exit = stopped(relay)
    await delay(500)
    await proxy.up()
    expect(await exit).toMatchObject({ code: 0, signal: null })
    expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
    expect(calls).toBe(2)
    expect(await readOwners(database)).toEqual([])
  })

  test(
    'while it starts, at whatever moment: ends soon and leaves nothing behind',
    { timeout: 120_000 * repeat },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const receiver = await startReceiver()
      await insertEvents(database, [{}])
      for (let round = 0; round < 6 * repeat; round++) {
        const relay = await startCliRelay({
          database,
          destinations: { hook: { type: 'webhook', url: `${receiver.origin}/events` } },
        })
        await delay(random.between(0, 900))
        const { code, signal, ms } = await stopped(relay)
        // Before it listens for signals it ends as every process does.
        expect([code, signal]).toEqual(signal === null ? [0, null] : [null, 'SIGTERM'])
        expect(ms).toBeLessThan(6_000)
        await eventually('no session is left', async () => (await readSessions(database)).length === 0)
        expect(await readOwners(database)).toEqual([])
      }
    },
  )

  test('while the database does not answer the start: ends soon', async () => {
    const database = await createTestDatabase()
    const { proxy, ...proxied } = await behindProxy(database)
    proxy.blackhole()
    const receiver = await startReceiver()
    const relay = await startCliRelay({
      database: proxied,
      destinations: { hook: { type: 'webhook', url: `${receiver.origin}/events` } },
      relay: { stopGraceMs: 1_000 },
    })
    await eventually('it connects', async () => proxy.accepted > 0)
    const { ms } = await stopped(relay)
    process.stdout.write(`stopped ${Math.round(ms)} ms after SIGTERM at a start without an answer\n`)
    expect(ms).toBeLessThan(8_000)
  })

  test('while the destination is away: ends at once, with 0, and nothing is counted', async () => {
    const database = await createTestDatabase()
    const ledger = await createLedger(database)
    const sink = await startSink(ledger)
    await sink.down()
    await ledger.write(300, { aggregates: 30 })
    const relay = startRelay({ database, sink, relay: { probeMaxMs: 30_000 } })
    await relay.until('destination.down')
    const { code, ms } = await stopped(relay)
    expect(code).toBe(0)
    expect(ms).toBeLessThan(4_000)
    await sink.up()
    const next = startRelay({ database, sink })
    await ledger.untilDelivered()
    await untilSettled(database)
    expect(await next.stop()).toEqual({ code: 0, signal: null })
    await expectKept({ ledger, database, sink, relays: [relay, next] })
    expect(await ledger.verdict()).toEqual(whole(300))
  })
})
