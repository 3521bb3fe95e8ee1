import type { EventEmitter } from 'node:events'
import pg from 'pg'
import { WaybillError } from '../errors.ts'
import { databaseError, failureOf, isStaleStatement, sqlState } from './failures.ts'

export interface ConnectionOptions {
  /** `postgres://user:password@host:port/database`. The password is never printed. */
  databaseUrl: string
  /** For error messages. */
  schema: string
  /** Shown in `pg_stat_activity`. Default: `waybill`. */
  applicationName?: string
  /** Limit for connecting, in milliseconds. Default: 10 000. */
  connectTimeoutMs?: number
  /** Limit for one statement, in milliseconds, measured on this side. Default: 30 000. */
  queryTimeoutMs?: number
  /**
   * A limit that was reached is doubled for the next statement, up to so many milliseconds, until one works: a
   * half-open session is noticed soon, and a slow server still comes to an end. Default: `queryTimeoutMs`.
   */
  maxQueryTimeoutMs?: number
  /**
   * True: refuses a server that only reads (a standby, a primary that was replaced), and leaves one that becomes
   * so, whether or not a statement writes. Default: false.
   */
  writable?: boolean
  /** Called when a session was left since its server became read-only: others of the same server are no better. */
  onReadOnly?: () => void
  /** Called once for each session that was made. */
  onConnect?: (session: Session) => void | Promise<void>
  /**
   * Rows are looked up by an index, one by one, also while the tables are so small that reading all of them would be
   * cheaper: the plan of a named statement stays when they have grown. Default: false.
   */
  byIndex?: boolean
}

export interface QueryOptions {
  /** Prepares the statement under this name, where no pooler stands between; anew after its types were changed. */
  name?: string
  /** Rows as arrays of columns as the server sent them (text, whatever their types) instead of objects. */
  rowMode?: 'text'
  /** With `rowMode`: makes of each row, as it comes, what is kept of it. It must not throw. */
  takeRow?: (columns: TextRow) => unknown
  /** Overrides `queryTimeoutMs` for this statement. */
  timeoutMs?: number
}

/** Columns as the server sent them. */
export type TextRow = (string | null)[]

export interface QueryResult<Row> {
  rows: Row[]
  rowCount: number
}

/** What a session offers besides statements: the part of `pg`'s client that LISTEN needs. */
export interface SessionClient {
  query(text: string): Promise<{ rows: Record<string, unknown>[] }>
  on(event: 'notification', listener: (message: { payload?: string | undefined }) => void): unknown
  once(event: 'end', listener: () => void): unknown
  removeListener(event: 'end', listener: () => void): unknown
}

/** One session with the server, as long as it lasts. */
export interface Session {
  readonly client: SessionClient
  /** True when a transaction pooler stands between: no LISTEN, no named statements. */
  readonly pooled: boolean
  /** Why it was left, when that was this side's decision. */
  readonly refusal: () => WaybillError | undefined
}

/**
 * One connection that recovers: it connects at the first statement, and again at the next statement after the
 * session was lost. A statement is never repeated by itself.
 */
export interface Connection {
  /** Host, port and database, without a password. */
  readonly where: string
  /**
   * @throws DATABASE_UNREACHABLE (also when the server became read-only: 25006), DATABASE_TIMEOUT,
   *   PERMISSION_DENIED, SCHEMA_MISSING, or PostgreSQL's own error.
   */
  query<Row = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<QueryResult<Row>>
  /** The session at hand, made if need be. */
  session(): Promise<Session>
  /** Drops the session; the next statement makes a new one. */
  reset(): void
  /** Idempotent. Statements under way fail. */
  close(): Promise<void>
}

// int8 and timestamptz stay text: a JavaScript number loses digits, a Date loses microseconds.
const asText = new Set<number>([20, 1184, 1114])
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text') =>
    asText.has(oid) ? (value: string) => value : pg.types.getTypeParser(oid, format)) as never,
}

type OwnSession = Omit<Session, 'client'> & { readonly client: pg.Client }

export function createConnection(options: ConnectionOptions): Connection {
  const { databaseUrl, schema, connectTimeoutMs = 10_000, queryTimeoutMs = 30_000, byIndex = false } = options
  const maxQueryTimeoutMs = options.maxQueryTimeoutMs ?? queryTimeoutMs
  const where = describeUrl(databaseUrl)
  let current: Promise<OwnSession> | undefined
  let connecting: pg.Client | undefined
  let limitMs = queryTimeoutMs
  let closed = false
  let turn: Promise<void> = Promise.resolve()

  function connect(): Promise<OwnSession> {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: options.applicationName ?? 'waybill',
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
      types,
    })
    // Without a listener a killed session would end the process, idle or not.
    client.on('error', () => drop(session))
    client.on('end', () => drop(session))
    const refusal = options.writable === true ? leaveWhenReadOnly(client, where) : () => undefined
    connecting = client
    const session = (async (): Promise<OwnSession> => {
      try {
        await client.connect()
        // A transaction pooler answers the start-up itself, with a process id of its own.
        const { rows } = await bounded(
          client,
          client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid'),
          connectTimeoutMs,
        )
        const made = {
          client,
          pooled: rows[0]?.pid !== (client as unknown as { processID: number }).processID,
          refusal,
        }
        if (!made.pooled) await bounded(client, prepareSession(client, byIndex), connectTimeoutMs)
        await bounded(client, Promise.resolve(options.onConnect?.(made)), connectTimeoutMs)
        return made
      } catch (error) {
        destroy(client)
        throw refusal() ?? error
      } finally {
        if (connecting === client) connecting = undefined
      }
    })()
    current = session
    return session
  }

  function drop(session: Promise<OwnSession> | undefined): void {
    if (session === undefined || current !== session) return
    current = undefined
    session.then(
      ({ client }) => destroy(client),
      () => undefined,
    )
  }

  async function session(): Promise<OwnSession> {
    if (closed) throw new WaybillError('DATABASE_UNREACHABLE', `the connection to ${where} is closed`)
    const attempt = current ?? connect()
    try {
      return await attempt
    } catch (error) {
      if (current === attempt) current = undefined
      throw databaseError(error, { where, schema })
    }
  }

  async function query<Row>(
    text: string,
    values: readonly unknown[] = [],
    how: QueryOptions = {},
  ): Promise<QueryResult<Row>> {
    // One statement at a time: a session takes no second one before the first is answered.
    const before = turn
    let leave!: () => void
    turn = new Promise((resolve) => (leave = resolve))
    await before
    try {
      return await queryNow(text, values, how)
    } finally {
      leave()
    }
  }

  async function queryNow<Row>(
    text: string,
    values: readonly unknown[],
    how: QueryOptions,
  ): Promise<QueryResult<Row>> {
    const mine = await session()
    const attempt = current
    try {
      const config: pg.QueryConfig = {
        text,
        values: values as unknown[],
        ...(how.name !== undefined && !mine.pooled ? { name: how.name } : {}),
      }
      const result = await bounded<Pick<pg.QueryResult, 'rows' | 'rowCount'>>(
        mine.client,
        how.rowMode === 'text' ? queryText(mine.client, config, how.takeRow) : mine.client.query(config),
        how.timeoutMs ?? limitMs,
      )
      limitMs = queryTimeoutMs
      const refused = mine.refusal()
      if (refused !== undefined) throw refused
      return { rows: result.rows as Row[], rowCount: result.rowCount ?? 0 }
    } catch (error) {
      if (error instanceof WaybillError && error.code === 'DATABASE_TIMEOUT')
        limitMs = Math.min(maxQueryTimeoutMs, limitMs * 2)
      if (failureOf(error) === 'connection' || isStaleStatement(error)) drop(attempt)
      const refused = mine.refusal()
      if (refused !== undefined) options.onReadOnly?.()
      const role = mine.client.user
      throw databaseError(refused ?? error, { where, schema, ...(role === undefined ? {} : { role }) })
    }
  }

  return {
    where,
    query,
    session,
    reset: () => drop(current),
    async close() {
      if (closed) return
      closed = true
      const last = current
      current = undefined
      if (connecting !== undefined) destroy(connecting)
      const open = await last?.catch(() => undefined)
      if (open === undefined) return
      const timer = setTimeout(() => destroy(open.client), 1000)
      await open.client.end().catch(() => undefined)
      clearTimeout(timer)
    },
  }
}

/**
 * A server says so by itself, with the answer to a statement, when it becomes a standby or read-only, and at the
 * start-up. What it answered with it may be old, and is dropped with the session.
 */
function leaveWhenReadOnly(client: pg.Client, where: string): () => WaybillError | undefined {
  let refusal: WaybillError | undefined
  const { connection } = client as unknown as { connection: EventEmitter }
  connection.on('parameterStatus', (status: { parameterName: string; parameterValue: string }) => {
    const { parameterName: name, parameterValue: value } = status
    if (value !== 'on' || (name !== 'in_hot_standby' && name !== 'default_transaction_read_only')) return
    refusal = new WaybillError(
      'DATABASE_UNREACHABLE',
      `PostgreSQL at ${where} only reads (${name} is on): a primary is needed`,
    )
    destroy(client)
  })
  return () => refusal
}

/** What is left to the planner is a nested loop with an index inside. */
const onlyByIndex = ['seqscan', 'hashjoin', 'mergejoin', 'material']
  .map((way) => `SET enable_${way} = off`)
  .join('; ')

/**
 * No statement of ours gains from being compiled, and it is compiled anew each time it runs: where the planner expects
 * many rows that takes longer than the statement.
 *
 * A statement that was given up on this side ends on the server as well, also while it waits for a lock: else each
 * further try would leave one more behind. Where the server's system cannot do that, it stays as it was.
 */
async function prepareSession(client: pg.Client, byIndex: boolean): Promise<void> {
  await client.query(byIndex ? `SET jit = off; ${onlyByIndex}` : 'SET jit = off')
  await client.query('SET client_connection_check_interval = 2000').catch((error: unknown) => {
    if (sqlState(error) === undefined) throw error
  })
}

/** Keeps each row as it was taken from the wire: a tenth of a read is copying it, column by column, through parsers. */
class TextQuery extends pg.Query {
  readonly taken: unknown[] = []
  takeRow: (columns: TextRow) => unknown = (columns) => columns

  handleDataRow(message: { fields: TextRow }): void {
    this.taken.push(this.takeRow(message.fields))
  }
}

function queryText(
  client: pg.Client,
  config: pg.QueryConfig,
  takeRow: QueryOptions['takeRow'],
): Promise<{ rows: unknown[]; rowCount: number }> {
  return new Promise((resolve, reject) => {
    const query = new TextQuery(config, (error) => {
      if (error) reject(error)
      else resolve({ rows: query.taken, rowCount: query.taken.length })
    })
    if (takeRow !== undefined) query.takeRow = takeRow
    client.query(query)
  })
}

/** A black-holed socket gives no event: only a limit on this side finds out. */
async function bounded<T>(client: pg.Client, work: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new WaybillError('DATABASE_TIMEOUT', `PostgreSQL did not answer within ${limitMs} ms`))
      destroy(client)
    }, limitMs)
  })
  try {
    return await Promise.race([work, limit])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}

function destroy(client: pg.Client): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  stream.destroy()
}

/** Host, port and database of a connection URL: what may be shown to people. */
export function describeUrl(databaseUrl: string): string {
  try {
    const url = new URL(databaseUrl)
    return `${url.hostname || url.searchParams.get('host') || 'localhost'}:${url.port || '5432'}${url.pathname}`
  } catch {
    return 'the configured address'
  }
}
