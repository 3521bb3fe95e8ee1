import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../cli/cli.ts'
import { createRandom, repeat } from '../faults/fixtures/random.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { type TestProcess, projectFolder, startCli, startNode } from '../support/processes.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { insertEvents, readEvents, upTo } from './harness.ts'

async function configured(url: string, relay: Record<string, unknown> = {}): Promise<string> {
  const cwd = await temporaryFolder()
  const config = {
    destinations: { hook: { type: 'webhook', url } },
    relay: { leaseMs: 1_000, retryBaseMs: 20, probeMaxMs: 250, ...relay },
  }
  await writeFile(join(cwd, 'waybill.config.json'), JSON.stringify(config))
  return cwd
}

const startRelay = (cwd: string, database: TestDatabase) =>
  startCli(['relay', '--port', '0'], { cwd, database })

/** Numbers of an aggregate in the order of their first arrival, and how many arrivals there were in all. */
function arrivals(receiver: Receiver, aggregate: string) {
  const seen = new Map<string, number>()
  let total = 0
  for (const { headers, body } of receiver.requests) {
    if (headers['x-waybill-aggregate-id'] !== aggregate) continue
    total++
    const id = headers['x-waybill-event-id']!
    if (!seen.has(id)) seen.set(id, (JSON.parse(body) as { n: number }).n)
  }
  return { firsts: [...seen.values()], total }
}

async function untilAllPublished(database: TestDatabase): Promise<void> {
  for (;;) {
    const [row] = await database.rows<{ left: number }>(
      'SELECT count(*)::int AS left FROM "waybill".outbox_events WHERE processed_at IS NULL',
    )
    if (row!.left === 0) return
    await delay(50)
  }
}

describe('relay processes', () => {
  test(
    'four relays, one killed every two seconds: nothing lost, each aggregate in order, aggregates in parallel',
    { repeats: repeat - 1 },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const aggregates = ['x', 'y', 'z']
      await insertEvents(
        database,
        upTo(100).flatMap((n) => aggregates.map((aggregate) => ({ aggregate, payload: { n } }))),
      )
      let underWay = new Set<string>()
      let overlapping = 0
      const receiver = await startReceiver(async ({ headers }) => {
        const aggregate = headers['x-waybill-aggregate-id']!
        underWay.add(aggregate)
        if (underWay.size > 1) overlapping++
        await delay(random.between(10, 120))
        underWay = new Set([...underWay].filter((other) => other !== aggregate))
        return 204
      })
      atEndOfFile(() => receiver.stop())
      const cwd = await configured(`${receiver.origin}/events`)
      const relays: TestProcess[] = upTo(4).map(() => startRelay(cwd, database))
      await receiver.waitFor(1)
      let kills = 0
      let done = false
      const killing = (async () => {
        while (!done) {
          await delay(2_000)
          if (done) break
          const [victim] = relays.splice(kills % relays.length, 1)
          victim!.signal('SIGKILL')
          expect((await victim!.exit).signal).toBe('SIGKILL')
          kills++
          relays.push(startRelay(cwd, database))
        }
      })()
      await untilAllPublished(database)
      done = true
      await killing
      expect(kills).toBeGreaterThanOrEqual(2)
      for (const aggregate of aggregates) {
        const { firsts, total } = arrivals(receiver, aggregate)
        expect(firsts).toEqual(upTo(100))
        // At most what was under way of this aggregate at each kill comes twice.
        expect(total).toBeLessThanOrEqual(100 + kills)
      }
      expect(overlapping).toBeGreaterThan(10)
      expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
      // One that was started a moment ago does not listen to signals yet.
      for (const relay of relays) await relay.line(/"url":"http:/)
      for (const relay of relays) relay.signal('SIGTERM')
      for (const relay of relays) expect(await relay.exit).toEqual({ code: 0, signal: null })
    },
  )

  test('a receiver that is away for long costs no attempt: all arrives in order when it is back', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    atEndOfFile(() => receiver.stop())
    await receiver.stop()
    const cwd = await configured(`${receiver.origin}/events`, { probeMaxMs: 50 })
    await insertEvents(
      database,
      upTo(20).flatMap((n) => upTo(10).map((a) => ({ aggregate: `a-${a}`, payload: { n } }))),
    )
    const relay = startRelay(cwd, database)
    await relay.line(/destination/i)
    // With probes at least 25 ms apart this is what ten minutes are with the default of 30 s: many more probes than attempts.
    await delay(3_000)
    expect(receiver.requests).toHaveLength(0)
    const before = await readEvents(database)
    expect(before.every((row) => !row.dead && row.attempts === 0 && !row.published)).toBe(true)
    await receiver.start()
    await untilAllPublished(database)
    for (const a of upTo(10)) expect(arrivals(receiver, `a-${a}`)).toEqual({ firsts: upTo(20), total: 20 })
    const after = await readEvents(database)
    expect(after.every((row) => row.attempts === 0 && !row.dead)).toBe(true)
    // One line for the change of state; that the database took long to answer is another matter.
    expect(relay.lines.filter((line) => line.includes('destination is away'))).toHaveLength(1)
    relay.signal('SIGTERM')
    expect(await relay.exit).toEqual({ code: 0, signal: null })
  })

  // The first death says only that it was one of those under way: two are the least.
  test.for([
    [1, 2],
    [2, 2],
    [3, 3],
    [5, 5],
  ] as const)(
    'an event that kills the process is a dead letter (maxAttempts: %i) after at most %i deaths, its neighbours are delivered',
    async ([maxAttempts, mostDeaths]) => {
      const database = await createTestDatabase()
      await insertEvents(database, [
        ...upTo(30).map((n) => ({ aggregate: `a-${n % 10}`, payload: { n } })),
        { aggregate: 'a-3', type: 'poison', payload: { n: 31 } },
        ...upTo(30).map((n) => ({ aggregate: `a-${n % 10}`, payload: { n: n + 31 } })),
      ])
      let deaths = 0
      for (;;) {
        const relay = startNode(`${projectFolder}test/relay/fixtures/killer-relay.ts`, [], {
          env: {
            DATABASE_URL: database.url,
            SCHEMA: database.schema,
            MAX_ATTEMPTS: String(maxAttempts),
          },
        })
        const dead = relay.line(/^dead a-3: /)
        const ended = await Promise.race([
          relay.exit.then(() => true),
          dead.then(
            () => false,
            () => true,
          ),
        ])
        if (!ended) {
          await untilSettled(database)
          await relay.kill()
          break
        }
        expect(await relay.exit).toEqual({ code: null, signal: 'SIGKILL' })
        deaths++
        expect(deaths).toBeLessThanOrEqual(mostDeaths)
      }
      expect(deaths).toBeGreaterThan(1)
      const rows = await readEvents(database)
      const [poison] = rows.filter((row) => row.dead)
      expect(poison).toMatchObject({
        aggregate_id: 'a-3',
        last_error: expect.stringContaining('ended the relay'),
      })
      expect(rows.filter((row) => row.dead)).toHaveLength(1)
      expect(rows.filter((row) => row.published && row.crashes === 0)).toHaveLength(60)
    },
  )
})

async function untilSettled(database: TestDatabase): Promise<void> {
  for (;;) {
    const [row] = await database.rows<{ left: number }>(
      'SELECT count(*)::int AS left FROM "waybill".outbox_events WHERE processed_at IS NULL AND dead_at IS NULL',
    )
    if (row!.left === 0) return
    await delay(50)
  }
}
