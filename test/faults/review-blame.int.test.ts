import { type Socket, connect, createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import { type PublishResult, brokerUnavailable, rejectedBy } from '../../src/publishing/publisher.ts'
import { insertEvents, readEvents, testRelay } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually } from './kit.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }

test('a record of suspicion whose answers are lost counts one death at the most', async () => {
  const { port } = new URL(database.url)
  let cuts = 4
  const sockets = new Set<Socket>()
  const proxy = createServer((inside) => {
    const outside = connect({ host: '127.0.0.1', port: Number(port) })
    let cut = false
    for (const socket of [inside, outside]) sockets.add(socket.on('error', () => undefined))
    inside.on('data', (data) => {
      if (data.includes('SET crashes') && cuts > 0) {
        cuts--
        cut = true
      }
      outside.write(data)
    })
    outside.on('data', (data) => {
      if (!cut) return inside.write(data)
      inside.destroy()
      outside.destroy()
    })
    inside.on('close', () => outside.destroy())
    outside.on('close', () => inside.destroy())
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  atEndOfFile(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => proxy.close(resolve))
  })
  const url = new URL(database.url)
  url.hostname = '127.0.0.1'
  url.port = String((proxy.address() as { port: number }).port)
  await insertEvents(database, [{ payload: { n: 1 } }])
  await database.query(
    `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), leased_until = clock_timestamp() - interval '1 second'`,
  )
  const publisher = recordingPublisher({
    behave: () => new Promise(() => undefined),
  })
  const relay = testRelay({ url: url.href, schema: database.schema }, { destinations: { bus: publisher } })
  await relay.start()
  await publisher.untilCalled(1)
  expect(cuts).toBe(0)
  expect((await readEvents(database))[0]).toMatchObject({ crashes: 1 })
})

test('an outage after a moment in which others got through counts nothing more', async () => {
  await insertEvents(database, [
    { aggregate: 'first', payload: { n: 1 } },
    { aggregate: 'second', payload: { n: 2 } },
  ])
  let momentOver = false
  let outage = 0
  const publisher = recordingPublisher({
    behave: (message) => {
      if (!momentOver && message.aggregateId === 'second' && outage > 4) {
        momentOver = true
        return published
      }
      outage++
      return {
        status: 'retry',
        error: brokerUnavailable('connection refused'),
      }
    },
  })
  const relay = testRelay(database, { destinations: { bus: publisher } })
  await relay.start()
  await relay.until('destination.up')
  const before = outage
  await eventually('a long outage', () =>
    Promise.resolve(outage >= before + 12 || relay.events('event.dead').length > 0),
  )
  await delay(100)
  const [first] = await readEvents(database)
  expect(first).toMatchObject({ dead: false })
  expect(first!.attempts).toBeLessThanOrEqual(1)
})

test('five equal refusals go back also when the first try to write that fails', async () => {
  await insertEvents(
    database,
    Array.from({ length: 5 }, (_, i) => ({
      aggregate: `a-${i}`,
      payload: { n: i },
    })),
  )
  await database.query(
    `CREATE SEQUENCE public.tries;
     CREATE FUNCTION public.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN
       IF nextval('public.tries') = 1 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END IF;
       RETURN NEW;
     END $$;
     CREATE TRIGGER fail_once BEFORE UPDATE ON "waybill".outbox_events FOR EACH ROW
       WHEN (OLD.dead_at IS NOT NULL AND NEW.dead_at IS NULL) EXECUTE FUNCTION public.fail_once()`,
  )
  let wrong = true
  const publisher = recordingPublisher({
    behave: () => (wrong ? { status: 'reject', error: rejectedBy('HTTP 404', 'answered 404') } : published),
  })
  const relay = testRelay(database, { destinations: { bus: publisher } })
  await relay.start()
  await relay.until('destination.down')
  await delay(1_000)
  wrong = false
  await relay.until('destination.up')
  await delay(1_500)
  expect((await readEvents(database)).filter(({ dead }) => dead)).toEqual([])
})

test('a stop that waits for a call keeps its bucket meanwhile', async () => {
  await insertEvents(database, [{ payload: { n: 1 } }])
  const slow = recordingPublisher({
    behave: () => delay(3_000).then(() => published),
  })
  const first = testRelay(database, {
    destinations: { bus: slow },
    leaseMs: 1_000,
  })
  await first.start()
  await slow.untilCalled(1)
  const other = recordingPublisher()
  const second = testRelay(database, {
    destinations: { bus: other },
    leaseMs: 1_000,
  })
  await second.start()
  await second.until('relay.buckets')
  expect(await first.stop({ graceMs: 10_000 })).toEqual({ clean: true })
  await delay(300)
  expect(slow.delivered).toHaveLength(1)
  expect(other.delivered).toEqual([])
})
