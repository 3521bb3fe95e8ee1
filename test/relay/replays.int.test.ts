import { beforeEach, describe, expect, test } from 'vitest'
import type { Message } from '../../src/publishing/publisher.ts'
import { brokerUnavailable } from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { insertEvents, testRelay } from './harness.ts'
import { type Behaviour, recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const ask = (eventId: string, number = 1) =>
  database.query(
    `INSERT INTO "waybill".replays (event_id, number, requested_by, reason) VALUES ($1, $2, 'on call', 'a test')`,
    [eventId, number],
  )
const replays = () =>
  database.rows('SELECT number, state, attempts, receipt, last_error FROM "waybill".replays ORDER BY number')

async function published(): Promise<string> {
  const [id] = await insertEvents(database, [{ aggregate: 'x', payload: { n: 1 } }])
  await testRelay(database, { destinations: { bus: recordingPublisher() } }).drain()
  return id!
}

const relayWith = (behave: Behaviour) => {
  const publisher = recordingPublisher({ behave })
  return { publisher, relay: testRelay(database, { destinations: { bus: publisher }, retryMaxMs: 20 }) }
}

describe('a replay', () => {
  test('is the same event and the same bytes under a broker id of its own, and the event stays published', async () => {
    const id = await published()
    await ask(id)
    const sent: Message[] = []
    const { relay } = relayWith((message) => {
      sent.push(message)
      return { status: 'published', receipt: 'again' }
    })
    await relay.start()
    await relay.until('replay.sent')
    await relay.stop()
    expect(sent).toMatchObject([{ eventId: id, messageId: `${id}.r1`, replay: 1, body: '{"n": 1}' }])
    expect(await replays()).toEqual([
      { number: 1, state: 'relayed', attempts: 0, receipt: 'again', last_error: null },
    ])
    const [row] = await database.rows(
      'SELECT processed_at IS NOT NULL AS published, receipt FROM "waybill".outbox_events',
    )
    expect(row).toEqual({ published: true, receipt: null })
  })

  test('goes out with relay --once too', async () => {
    await ask(await published())
    await relayWith(() => ({ status: 'published' })).relay.drain()
    expect(await replays()).toMatchObject([{ state: 'relayed' }])
  })

  test('waits while its destination is away, without a counted attempt, and is tried again when it fails', async () => {
    await ask(await published())
    let calls = 0
    const { relay } = relayWith(() => {
      calls++
      if (calls === 1) throw brokerUnavailable('away')
      if (calls === 2) return { status: 'retry', error: new Error('not now') }
      return { status: 'published' }
    })
    await relay.start()
    await relay.until('replay.sent', ({ state }) => state === 'relayed')
    await relay.stop()
    expect(relay.events('replay.sent').map(({ state }) => state)).toEqual(['pending', 'pending', 'relayed'])
    expect(await replays()).toMatchObject([{ state: 'relayed', attempts: 1 }])
  })

  test('that is refused for good is given up, with the reason', async () => {
    await ask(await published())
    const { relay } = relayWith(() => ({ status: 'reject', error: new Error('never') }))
    await relay.drain()
    expect(await replays()).toMatchObject([{ state: 'dead', last_error: 'never' }])
  })

  test('is recorded by nobody who lost the bucket meanwhile', async () => {
    await ask(await published())
    const { relay, publisher } = relayWith(async () => {
      await database.query(`UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = epoch + 1,
        leased_until = clock_timestamp() + interval '1 hour'`)
      return { status: 'published' }
    })
    await relay.start()
    await publisher.untilCalled(1)
    await relay.stop()
    expect(relay.events('replay.sent')).toEqual([])
    expect(await replays()).toMatchObject([{ state: 'pending' }])
  })
})
