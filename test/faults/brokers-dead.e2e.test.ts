import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { insertEvents, readEvents } from '../relay/harness.ts'
import { createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { startRelay } from './fixtures/relay-process.ts'
import { startSink } from './fixtures/sink.ts'
import { expectKept, untilSettled } from './fixtures/table.ts'

const isLong = process.env['WAYBILL_TEST_LONG'] === '1'
/** With a probe each 50 ms at most, 15 seconds have as many of them as half an hour at default settings, and more. */
const outageMs = isLong ? 600_000 : 15_000
const events = 50_000
const aggregates = 20_000

/** What the ledger would have written one by one, in one statement. */
async function fill(database: TestDatabase): Promise<void> {
  await database.query(
    `WITH numbered AS (
       SELECT n, 'a-' || (n % $2 + 1) AS aggregate, n / $2 + 1 AS version, gen_random_uuid() AS id
       FROM generate_series(0, $1 - 1) AS n
     ), aggregates AS (
       INSERT INTO ledger.aggregates (id, version) SELECT aggregate, max(version) FROM numbered GROUP BY aggregate
     ), noted AS (
       INSERT INTO ledger.events (aggregate, version, event_id, payload)
       SELECT aggregate, version, id, jsonb_build_object('aggregate', aggregate, 'version', version) FROM numbered
     )
     INSERT INTO "waybill".outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
     SELECT id, 'ledger', aggregate, 'ledger.counted', jsonb_build_object('aggregate', aggregate, 'version', version)
     FROM numbered ORDER BY n`,
    [events, aggregates],
  )
}

async function readRss(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!
}

describe('a broker that is dead for long', () => {
  test(
    'with 50 000 events of 20 000 aggregates pending and a heap of 128 MB: the relay lives, its memory stays flat, and all is delivered when the broker is back',
    { timeout: outageMs + 150_000 },
    async () => {
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const [sink, live] = [await startSink(ledger), await startSink()]
      await sink.down()
      await fill(database)
      const relay = startRelay({
        ...{ database, sink, live, level: 'debug' },
        node: ['--max-old-space-size=128'],
        relay: { probeMaxMs: isLong ? 2_000 : 50, leaseMs: 5_000, publishTimeoutMs: 5_000 },
      })
      const writers = ledger.startWriters({ aggregates, pauseMs: 40 })
      await relay.until('destination.down')
      const began = performance.now()
      const rss: number[] = []
      const latencies: number[] = []
      let heapAtFirst = Infinity
      for (let n = 1; performance.now() - began < outageMs; n++) {
        if (heapAtFirst === Infinity && performance.now() - began > outageMs / 4)
          heapAtFirst = await relay.heap()
        rss.push(await readRss(relay.process.pid))
        // The other destination does not notice, whatever waits for the dead one.
        const sentAt = performance.now()
        await insertEvents(database, [{ aggregate: `live-${n}`, type: 'live.event' }])
        await live.untilDistinct(n)
        latencies.push(performance.now() - sentAt)
        await delay(200)
      }
      const probes = relay.logged('batch.finished').filter(({ failed }) => failed > 0).length
      expect(probes).toBeGreaterThan(60)
      expect(sink.arrivals).toEqual([])
      expect(relay.logged('destination.down')).toHaveLength(1)
      expect(median(latencies)).toBeLessThan(1_000)

      const half = Math.floor(rss.length / 2)
      // The first part is its warming up.
      const [first, second] = [median(rss.slice(Math.floor(half / 2), half)), median(rss.slice(half))]
      expect(second).toBeLessThan(first * 1.2 + 10)
      expect(Math.max(...rss)).toBeLessThan(250)
      const heap = await relay.heap()
      expect(heap).toBeLessThan(heapAtFirst + 8)

      await writers.stop()
      const { committed } = writers
      expect(committed).toBeGreaterThan(100)
      await sink.up()
      const backAt = performance.now()
      await ledger.untilDelivered(100_000)
      await untilSettled(database)
      const seconds = (performance.now() - backAt) / 1_000
      process.stdout.write(
        `${probes} probes, RSS ${Math.round(first)} MB then ${Math.round(second)} MB, heap ${heap.toFixed(1)} MB, others within ` +
          `${Math.round(median(latencies))} ms; ${events + committed} events delivered in ${seconds.toFixed(1)} s\n`,
      )
      expect(await relay.stop()).toEqual({ code: 0, signal: null })
      expect(await expectKept({ ledger, database, sink, relays: [relay] })).toMatchObject({ duplicates: 0 })
    },
  )

  test.for([
    ['rabbitmq', (port: number) => ({ url: `amqp://guest:guest@127.0.0.1:${port}`, exchange: 'events' })],
    ['webhook', (port: number) => ({ url: `http://127.0.0.1:${port}/` })],
  ] as const)('leaves nothing in memory at each probe: %s', async ([type, options]) => {
    const database = await createTestDatabase()
    await insertEvents(
      database,
      Array.from({ length: 100 }, (_, n) => ({ aggregate: `a-${n}` })),
    )
    const relay = startRelay({
      database,
      broker: { type, options: options(await freePort()) },
      level: 'debug',
      node: ['--max-old-space-size=128'],
      // As fast as it goes: in seconds as many probes as in many hours at default settings.
      relay: { probeMaxMs: 1 },
    })
    const probes = () => relay.process.lines.filter((line) => line.includes('"batch.finished"')).length
    const heapAfter = async (count: number) => {
      while (probes() < count) await delay(50)
      return relay.heap()
    }
    const first = await heapAfter(500)
    const last = await heapAfter(isLong ? 100_000 : 2_000)
    process.stdout.write(`${type}: heap ${first.toFixed(2)} MB, then ${last.toFixed(2)} MB\n`)
    // A connection with its buffers has more than a kilobyte.
    expect(last - first).toBeLessThan(1.5)
    expect((await readEvents(database)).every((row) => !row.dead && row.attempts === 0)).toBe(true)
    expect(await relay.stop()).toEqual({ code: 0, signal: null })
  })
})
