import { type Connection, type ConnectionOptions, createConnection } from '../database/connection.ts'

export interface RelayConnectionsOptions {
  databaseUrl: string
  schema: string
  leaseMs: number
  /** A new session of the reader: what was sampled in the last one is worth nothing. */
  onReadSession: () => void
}

/** The relay's sessions: one for each loop, so that none waits for the statements of another. */
export interface RelayConnections {
  readonly leases: Connection
  readonly mark: Connection
  readonly read: Connection
  /** For the listener, which makes its own. */
  readonly database: ConnectionOptions
}

const connectTimeoutMs = 5_000
/** So that a half-open session is noticed within 15 seconds, also by a relay that sleeps for five of them. */
const statementLimitMs = 8_000
/** What a statement that ran into its limit may take when it is tried again and again. */
const slowStatementLimitMs = 60_000

export function createRelayConnections(options: RelayConnectionsOptions): RelayConnections {
  const { databaseUrl, schema, leaseMs, onReadSession } = options
  const database = {
    ...{ databaseUrl, schema, writable: true, connectTimeoutMs },
    // A session that is idle would not find out.
    onReadOnly: () => [leases, mark, read].forEach((connection) => connection.reset()),
  }
  const patient = {
    ...database,
    queryTimeoutMs: statementLimitMs,
    maxQueryTimeoutMs: slowStatementLimitMs,
  }
  const leases = createConnection({
    ...database,
    applicationName: 'waybill leases',
    // A session that is dead without a word is replaced before the leases run out.
    queryTimeoutMs: Math.min(statementLimitMs, Math.max(1_000, leaseMs / 2)),
  })
  const mark = createConnection({ ...patient, byIndex: true, applicationName: 'waybill mark' })
  const read = createConnection({
    ...{ ...patient, byIndex: true, applicationName: 'waybill read' },
    onConnect: onReadSession,
  })
  return { leases, mark, read, database }
}
