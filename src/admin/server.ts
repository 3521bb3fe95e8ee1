import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { type ConnectionOptions, createConnection } from '../database/connection.ts'
import { WaybillError, describeError } from '../errors.ts'
import { openFactSources } from '../publications/fact-sources.ts'
import type { PublicationOptions } from '../publications/publication.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { type Health, createAdminApp } from './app.ts'
import { checkBinding } from './guard.ts'

// Of use to whoever runs the relay within a process of their own.
export type { Health } from './app.ts'
export { createHousekeeping } from '../operations/housekeeping.ts'
export type { Housekeeping, HousekeepingOptions } from '../operations/housekeeping.ts'
export { createLog } from '../telemetry/log.ts'
export type { Log, LogOptions } from '../telemetry/log.ts'
export { createMetrics } from '../telemetry/metrics.ts'
export type { Metrics, MetricsOptions } from '../telemetry/metrics.ts'

export interface AdminServerOptions {
  /** Default: `127.0.0.1`. Anything that other machines can reach needs a token. */
  host?: string
  /** 0 takes a free one. Default: 4747. */
  port?: number
  /** What `Authorization: Bearer …` must carry. Default: none, on loopback only. */
  token?: string
  /** The server makes two connections of its own, at the first request that needs one. */
  database: ConnectionOptions
  /** Asked by `/livez` and `/readyz`. */
  health: () => Health
  /** Publications by name, which trace and audit know; as in the configuration. Default: none. */
  publications?: Readonly<Record<string, PublicationOptions>>
  metrics: Pick<Metrics, 'render'>
  telemetry: Telemetry
}

export interface AdminAddress {
  readonly host: string
  readonly port: number
  readonly url: string
}

/** The relay's own HTTP server: health, metrics, the API. */
export interface AdminServer {
  /** @throws CONFIGURATION_INVALID when the address is in use or not of this machine. */
  start(): Promise<AdminAddress>
  /** Finishes what is under way for at most a second, ends long actions between two chunks. Idempotent. */
  stop(): Promise<void>
}

const stopGraceMs = 1_000

/** @throws CONFIGURATION_INVALID for an address that other machines can reach without a token. */
export function createAdminServer(options: AdminServerOptions): AdminServer {
  const { host = '127.0.0.1', port = 4747, token, database, telemetry } = options
  checkBinding(host, token)
  const stopping = new AbortController()
  const connect = () => createConnection({ applicationName: 'waybill admin', ...database })
  const reader = connect()
  const actor = connect()
  // Idle as they mostly are, they would not find out, and stay with a primary that was replaced.
  const off = telemetry.on('database.down', () => [reader, actor].forEach((connection) => connection.reset()))
  const facts = openFactSources(actor, { schema: database.schema, publications: options.publications ?? {} })
  const app = createAdminApp({
    schema: database.schema,
    ...(token === undefined ? {} : { token }),
    health: options.health,
    metrics: options.metrics,
    telemetry,
    ...{ reader, actor, facts, signal: stopping.signal },
  })
  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  let stopped: Promise<void> | undefined

  async function close(): Promise<void> {
    stopping.abort()
    off()
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    server.closeIdleConnections()
    const timer = setTimeout(() => server.closeAllConnections(), stopGraceMs)
    await closed
    clearTimeout(timer)
    await Promise.all([reader.close(), actor.close(), facts.close()])
  }

  return {
    async start() {
      await listen(server, host, port)
      const address = server.address() as AddressInfo
      const name = host.includes(':') ? `[${host.replace(/^\[(.*)\]$/, '$1')}]` : host
      const url = `http://${name}:${address.port}`
      telemetry.emit('admin.listening', { url })
      return { host, port: address.port, url }
    },
    stop: () => (stopped ??= close()),
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => reject(listenError(error, host, port))
    server.once('error', failed)
    server.listen({ host: host.replace(/^\[(.*)\]$/, '$1'), port }, () => {
      server.off('error', failed)
      resolve()
    })
  })
}

const listenProblems: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use: choose another admin.port, or 0 for a free one',
  EACCES: 'may not be used by this user: choose an admin.port from 1024 on',
  EADDRNOTAVAIL: 'is not an address of this machine: correct admin.host',
  ENOTFOUND: 'has a name that cannot be resolved: correct admin.host',
}

function listenError(error: NodeJS.ErrnoException, host: string, port: number): WaybillError {
  const problem = listenProblems[error.code ?? ''] ?? `cannot be listened on: ${describeError(error, 200)}`
  return new WaybillError('CONFIGURATION_INVALID', `the HTTP address ${host}:${port} ${problem}`, {
    cause: error,
  })
}
