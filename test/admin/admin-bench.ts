import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { Health } from '../../src/admin/app.ts'
import {
  type AdminAddress,
  type AdminServer,
  type AdminServerOptions,
  createAdminServer,
} from '../../src/admin/server.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

// A file that imports this has a database of its own, empty before each test, and two servers on it.

/** The database behind the servers. */
export let database: TestDatabase
/** A server without a token. */
export let open: AdminAddress
/** A server that wants the token {@link secret}. */
export let closed: AdminAddress
export const telemetry = createTelemetry()
export const metrics = createMetrics({ telemetry })
/** Every server that was started. */
export const servers: AdminServer[] = []

const well: Health = { live: true, ready: true, reason: null }
let told = well
/** How the process is, in the eyes of the servers: well, unless told otherwise. */
export const health = (): Health => told
/** Until the end of the test. */
export function setHealth(health: Health): void {
  told = health
}

/** Another server, stopped at the end of the file. */
export async function start(options: Partial<AdminServerOptions> = {}): Promise<AdminAddress> {
  const server = createAdminServer({
    port: 0,
    database: { databaseUrl: database.url, schema: testSchema },
    health,
    ...{ metrics, telemetry },
    ...options,
  })
  servers.push(server)
  return server.start()
}

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  json: any
}

/** fetch() does not let a test choose Host, Origin or Sec-Fetch-Site. */
export function send(
  { port, host }: AdminAddress,
  path: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host, path, method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const json = response.headers['content-type']?.startsWith('application/json')
          ? JSON.parse(text)
          : undefined
        resolve({ status: response.statusCode!, headers: response.headers, text, json })
      })
    })
    request.on('error', reject)
    request.end(body)
  })
}

/** Asks for an action as somebody without a browser does. */
export const act = (
  address: AdminAddress,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
) =>
  send(address, path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'x-waybill-action': '1', ...headers },
  })
export const retryPath = '/api/v1/dead-letters/retry'
export const discardPath = '/api/v1/dead-letters/discard'
export const secret = 'a-long-secret'
export const bearer = { authorization: `Bearer ${secret}` }

beforeAll(async () => {
  database = await createTestDatabase()
  open = await start()
  closed = await start({ token: secret })
})
afterAll(() => Promise.all(servers.map((server) => server.stop())))
beforeEach(async () => {
  told = well
  await database.query('TRUNCATE "waybill".outbox_events, "waybill".decisions RESTART IDENTITY')
})

/** True while the event is a dead letter. */
export const isDead = async (id: string) =>
  (
    await database.rows(
      'SELECT dead_at IS NOT NULL AND discarded_at IS NULL AS dead FROM "waybill".outbox_events WHERE id = $1',
      [id],
    )
  )[0]!.dead
