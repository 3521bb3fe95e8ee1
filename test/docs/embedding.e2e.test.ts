import { expect, test } from 'vitest'
import { codeOf } from '../support/compile.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { createReader } from './reader.ts'

test('the example with all that the command does delivers, serves, counts, and stops at SIGTERM', async () => {
  const database = await createTestDatabase({ schema: 'waybill' })
  const reader = await createReader({ DATABASE_URL: database.url, WAYBILL_PORT: '0' })
  const example = codeOf('guides/embedding.md', 'ts').find((code) => code.includes('createHousekeeping'))!
  await reader.save('package.json', '{"type": "module"}')
  await reader.save('relay.ts', example)
  const running = reader.start(`node --import ${import.meta.resolve('tsx')} relay.ts`)
  const [, url] = await running.line(/"event":"admin.listening".*"url":"([^"]+)"/)
  await running.line(/"event":"relay.started"/)
  await database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
     VALUES ('order', 'o-1', 'order.created', '{"total": 12.50}')`,
  )
  await running.line(/"body":\{"total": 12.50\}\}$/)
  const ready = await fetch(`${url}/readyz`)
  expect(ready.status).toBe(200)
  const metrics = async () => (await fetch(`${url}/metrics`)).text()
  await expect.poll(metrics, { timeout: 10_000 }).toContain('\noutbox_collect_success 1\n')
  running.signal('SIGTERM')
  expect(await running.exit).toEqual({ code: 0, signal: null })
})
