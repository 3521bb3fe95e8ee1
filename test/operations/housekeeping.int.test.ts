import { beforeAll, expect, test } from 'vitest'
import { createHousekeeping, createLog, createMetrics } from '../../src/admin/server.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'
import { readSessions } from '../faults/kit.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { createProxy } from '../support/proxy.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, processed_at)
     SELECT 'order', day::text, 'order.created', '{}', now() - day * interval '1 day'
     FROM generate_series(1, 10) AS day`,
  )
})

const left = async () => (await database.rows('SELECT FROM "waybill".outbox_events')).length
const relayId = '0197f6a0-2f43-7cc0-8000-5b1f0c0f7d11'

test('housekeeping beside an embedded relay counts, removes what is old, and is heard in the log', async () => {
  const telemetry = createTelemetry()
  const lines: string[] = []
  createLog({ level: 'debug', destination: { write: (line) => void lines.push(line) } }).attach(telemetry)
  const common = { databaseUrl: database.url, schema: database.schema, telemetry, relayId }

  const keeping = createHousekeeping({ ...common, retention: false })
  const counted = new Promise((resolve) => telemetry.on('sample.taken', resolve))
  expect(keeping.sample()).toBeNull()
  keeping.start()
  await counted
  const { body } = await createMetrics({ telemetry, sample: keeping.sample }).render()
  await keeping.stop()
  expect(body).toContain('\noutbox_events_pending 0\n')
  expect(await left()).toBe(10)

  const removing = createHousekeeping({ ...common, retention: { processedDays: 4.5 } })
  const pruned = new Promise<{ deleted: number }>((resolve) => telemetry.on('prune.finished', resolve))
  removing.start()
  expect(await pruned).toMatchObject({ deleted: 6 })
  await removing.stop()
  expect(await left()).toBe(4)
  expect(lines.map((line) => JSON.parse(line).event)).toContain('prune.finished')
})

test('housekeeping refuses what it cannot keep to', () => {
  const options = { databaseUrl: database.url, telemetry: createTelemetry(), relayId }
  expect(() => createHousekeeping({ ...options, retention: { processedDays: -1 } })).toThrow(
    'expected retention.processedDays to be a number from 0 to 36500, got -1',
  )
})

test('housekeeping leaves its connections when the relay has lost its own: its server may be another one now', async () => {
  const telemetry = createTelemetry()
  const keeping = createHousekeeping({
    databaseUrl: database.url,
    schema: database.schema,
    telemetry,
    relayId,
  })
  const pruned = new Promise((resolve) => telemetry.on('prune.finished', resolve))
  const sessions = async () => (await readSessions(database)).filter(({ name }) => name === 'waybill prune')
  await database.query(
    'UPDATE "waybill".outbox_tasks SET owner = NULL, leased_until = NULL, finished_at = NULL',
  )
  keeping.start()
  await pruned
  expect(await sessions()).toHaveLength(1)
  telemetry.emit('database.down', { error: 'test' })
  await expect.poll(sessions).toEqual([])
  await keeping.stop()
})

test('housekeeping stops within seconds while the database says nothing', async () => {
  const url = new URL(database.url)
  const proxy = await createProxy(Number(url.port))
  proxy.blackhole()
  url.port = String(proxy.port)
  const options = { databaseUrl: url.href, schema: database.schema, telemetry: createTelemetry(), relayId }
  const keeping = createHousekeeping(options)
  keeping.start()
  await expect.poll(() => proxy.accepted).toBe(2)
  const began = performance.now()
  await keeping.stop()
  expect(performance.now() - began).toBeLessThan(5_000)
})
