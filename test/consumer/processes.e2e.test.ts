import { beforeEach, expect, test } from 'vitest'
import type { Message } from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { type TestProcess, startNode } from '../support/processes.ts'
import { note, toDelivery } from './harness.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createTestDatabase()
  await db.query(
    `CREATE TABLE queue (position int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, delivery json, acked boolean DEFAULT false);
     CREATE TABLE applied (position int GENERATED ALWAYS AS IDENTITY, event_id text, aggregate_id text, n int)`,
  )
})

async function send(messages: readonly Message[]): Promise<void> {
  for (const message of messages)
    await db.query('INSERT INTO queue (delivery) VALUES ($1)', [JSON.stringify(toDelivery(message))])
}
const start = (env: Record<string, string> = {}): TestProcess =>
  startNode('test/consumer/fixtures/consumer-process.ts', [], {
    env: { DATABASE_URL: db.url, SCHEMA: db.schema, ...env },
  })
const left = async () => (await db.rows('SELECT FROM queue WHERE NOT acked')).length
async function untilEmpty(): Promise<void> {
  await expect.poll(left, { timeout: 60_000 }).toBe(0)
}
const applied = (aggregateId?: string) =>
  db.rows<{ event_id: string; n: number }>(
    'SELECT event_id, n FROM applied WHERE $1::text IS NULL OR aggregate_id = $1 ORDER BY position',
    [aggregateId ?? null],
  )
const numbered = (aggregateId: string, count: number) =>
  Array.from({ length: count }, (_, i) => note({ aggregateId, body: JSON.stringify({ n: i + 1 }) }))

test('an event whose process was killed between commit and acknowledgement is not handled again', async () => {
  const messages = [...numbered('a', 3), ...numbered('b', 3)]
  await send(messages)
  const first = start({ KILL_BEFORE_ACK: 'a' })
  expect(await first.exit).toMatchObject({ signal: 'SIGKILL' })
  // The fault has happened: it is committed, and the queue does not know.
  expect(await applied('a')).toHaveLength(1)
  expect(await left()).toBeGreaterThanOrEqual(3)
  const second = start()
  await expect.poll(left, { timeout: 60_000 }).toBe(0)
  second.signal('SIGTERM')
  expect(await second.exit).toMatchObject({ code: 0 })
  for (const aggregate of ['a', 'b']) expect((await applied(aggregate)).map(({ n }) => n)).toEqual([1, 2, 3])
})

test('a consumer that is killed again and again applies each event once, in order, and repeats no finished effect', async () => {
  const aggregates = Array.from({ length: 10 }, (_, i) => `agg-${i}`)
  const messages = Array.from({ length: 10 }, (_, n) =>
    aggregates.map((aggregateId) => note({ aggregateId, body: JSON.stringify({ n }) })),
  ).flat()
  await send(messages)
  const output: string[] = []
  let kills = 0
  for (let remaining = await left(); remaining > 0; remaining = await left()) {
    // Killed from outside, so often, an event would be taken for the one that does it.
    const life = start({ MAX_ATTEMPTS: '20' })
    if (kills < 5) {
      await life.line(/acked/)
      await life.kill()
      kills++
    } else {
      await expect.poll(left, { timeout: 60_000 }).toBe(0)
      life.signal('SIGTERM')
      await life.exit
    }
    output.push(life.stdout)
  }
  expect(kills).toBeGreaterThan(2)
  expect((await applied()).map(({ event_id }) => event_id).sort()).toEqual(
    messages.map(({ eventId }) => eventId).sort(),
  )
  for (const aggregate of aggregates) {
    expect((await applied(aggregate)).map(({ n }) => n)).toEqual([...Array(10).keys()])
  }
  // At least once, and no more than the processes that could have died between an effect and its record.
  const told = output
    .join('')
    .split('\n')
    .filter((line) => line.startsWith('told')).length
  expect(told).toBeGreaterThanOrEqual(messages.length)
  expect(told).toBeLessThanOrEqual(messages.length + kills * 10)
})

test('an event that ends its process becomes a dead letter, and nothing beside it does', async () => {
  const neighbours = [...numbered('n-1', 3), ...numbered('n-2', 3)]
  await send([note({ aggregateId: 'p', eventType: 'poison', body: '{"n": 1}' }), ...neighbours])
  let deaths = 0
  const output: string[] = []
  while ((await left()) > 0) {
    const life = start()
    const ended = await Promise.race([life.exit.then(() => true), untilEmpty().then(() => false)])
    if (ended) deaths++
    else {
      life.signal('SIGTERM')
      await life.exit
    }
    output.push(life.stdout)
  }
  expect(deaths).toBeGreaterThanOrEqual(2)
  expect(deaths).toBeLessThanOrEqual(4)
  const dead = await db.rows('SELECT aggregate_id, error FROM "waybill".consumer_dead_letters')
  expect(dead).toEqual([
    { aggregate_id: 'p', error: expect.stringMatching(/the process ended \d times while/) as string },
  ])
  for (const aggregate of ['n-1', 'n-2'])
    expect((await applied(aggregate)).map(({ n }) => n)).toEqual([1, 2, 3])
  expect(await db.rows(`SELECT FROM "waybill".consumer_messages WHERE state = 'failing'`)).toEqual([])
})
