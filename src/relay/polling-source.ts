import type { Connection, TextRow } from '../database/connection.ts'
import { WaybillError } from '../errors.ts'
import type { AggregateRequest, BucketRequest, ReadEvent, Source } from './source.ts'
import { type Statements, rowReadOnly, rowReset } from './statements.ts'

/** An event as the statements give it, in text; see `columns` there. */
export type Row = [
  bucket: string,
  /** Null in the one row that says that the reader is mistaken: it has a bucket and nothing else. */
  position: string | null,
  id: string,
  aggregateType: string,
  aggregateId: string,
  eventType: string,
  body: string | null,
  headers: string | null,
  revision: string | null,
  operationId: string | null,
  createdAtMicros: string,
  attempts: string | null,
  crashes: string | null,
  retryInMs: string | null,
]

interface Sample {
  drawn: string
  writers: string[]
  sequence: string
  onlyReads: boolean
}

/** Bytes of stored (perhaps compressed) payload that one read may bring in; the first row of each part comes always. */
const maxBytesPerRead = 16 * 1024 * 1024

export interface PollingSource extends Source {
  /** A new session may mean a new primary, on which other numbers were drawn: forgets what was sampled. */
  reset(): void
}

/** Reads the table over a connection of its own, of which each new session must call `reset`. */
export function createPollingSource(connection: Connection, statements: Statements): PollingSource {
  const decided = createDecided()
  const listeners: (() => void)[] = []

  function reset(): void {
    decided.reset()
    for (const listener of listeners) listener()
  }

  async function rows(name: string, text: string, values: readonly unknown[]): Promise<ReadEvent[]> {
    const { rows } = await connection.query<ReadEvent>(text, values, {
      name,
      rowMode: 'text',
      takeRow: toEvent as (columns: TextRow) => ReadEvent,
    })
    const first = rows[0]?.bucket
    refuseReadOnly(first === rowReadOnly)
    if (first !== rowReset) return rows
    reset()
    return []
  }

  function refuseReadOnly(onlyReads: boolean): void {
    if (!onlyReads) return
    throw new WaybillError(
      'DATABASE_UNREACHABLE',
      `PostgreSQL at ${connection.where} only reads: a primary is needed (a pooler has to let go of the one that was replaced)`,
    )
  }

  return {
    read(requests: readonly BucketRequest[], skip: readonly AggregateRequest[]) {
      const values: unknown[] = [
        requests.map((r) => r.bucket),
        requests.map((r) => r.floor.toString()),
        requests.map((r) => r.limit),
        requests.map((r) => (r.payloads ? Math.ceil(maxBytesPerRead / requests.length) : 0)),
        decided.sequence,
      ]
      if (skip.length === 0) return rows('waybill_read', statements.read, values)
      values.push(
        skip.map((s) => s.aggregateType),
        skip.map((s) => s.aggregateId),
        skip.map((s) => s.from.toString()),
      )
      return rows('waybill_read_skipping', statements.readSkipping, values)
    },
    readAggregates: (requests) =>
      rows('waybill_read_aggregates', statements.readAggregates, [
        requests.map((r) => r.bucket),
        requests.map((r) => r.aggregateType),
        requests.map((r) => r.aggregateId),
        requests.map((r) => r.from.toString()),
        requests.map((r) => r.limit),
        Math.ceil(maxBytesPerRead / requests.length),
        decided.sequence,
      ]),
    async readHeld(buckets) {
      const { rows: held } = await connection.query<[string, string, string]>(
        statements.readHeld,
        [buckets],
        { rowMode: 'text' },
      )
      refuseReadOnly(Number(held[0]?.[0]) === rowReadOnly)
      return held.map(([bucket, aggregateType, aggregateId]) => ({
        bucket: Number(bucket),
        aggregateType,
        aggregateId,
      }))
    },
    async readWriters() {
      const { rows: found } = await connection.query<Sample>(statements.sampleWriters, [], {
        name: 'waybill_writers',
      })
      const { drawn: text, writers: open, sequence, onlyReads } = found[0]!
      refuseReadOnly(onlyReads)
      const drawn = BigInt(text)
      if (decided.add(drawn, open, sequence) === 'reset') reset()
      return { decided: decided.value, drawn, open }
    },
    reset,
    onReset: (listener) => void listeners.push(listener),
  }
}

/**
 * Up to where every position is decided. A sample is (last number drawn, writers that hold a lock now); once all
 * its writers have ended, its number is decided. `pg_current_snapshot()` could not tell: a number is drawn before
 * the transaction has an xid.
 */
export function createDecided() {
  let value = 0n
  let waiting: { drawn: bigint; writers: Set<string> } | undefined
  let lastDrawn = 0n
  let file: string | null = null
  return {
    get value() {
      return value
    },
    /** Where the numbers seen so far are from; null before the first sample. */
    get sequence() {
      return file
    },
    add(drawn: bigint, writers: readonly string[], sequence: string): 'ok' | 'reset' {
      if (drawn < lastDrawn || (file !== null && file !== sequence)) {
        // The sequence began again: TRUNCATE … RESTART IDENTITY, or another server. Numbers may come again.
        return 'reset'
      }
      lastDrawn = drawn
      file = sequence
      if (waiting !== undefined) {
        const now = new Set(writers)
        for (const writer of waiting.writers) if (!now.has(writer)) waiting.writers.delete(writer)
        if (waiting.writers.size > 0) return 'ok'
        value = waiting.drawn
      }
      waiting = { drawn, writers: new Set(writers) }
      if (writers.length === 0) {
        value = drawn
        waiting = undefined
      }
      return 'ok'
    },
    reset(): void {
      value = 0n
      waiting = undefined
      lastDrawn = 0n
      file = null
    },
  }
}

/** Of the last row: those of the next are the same texts in most cases, and kept in memory once. */
let lastAggregateType = ''
let lastEventType = ''

/** By number: taking a row apart with `const […] = row` goes through its iterator, for each event. */
export function toEvent(row: Row): ReadEvent {
  if (row[3] !== lastAggregateType) lastAggregateType = row[3]
  if (row[5] !== lastEventType) lastEventType = row[5]
  return {
    bucket: Number(row[0]),
    position: BigInt(row[1] ?? 0),
    id: row[2],
    aggregateType: lastAggregateType,
    aggregateId: row[4],
    eventType: lastEventType,
    body: row[6],
    headers: row[7] ?? '{}',
    revision: row[8],
    operationId: row[9],
    createdAtMicros: row[10],
    replay: null,
    attempts: Number(row[11]),
    crashes: Number(row[12]),
    retryInMs: Number(row[13]),
  }
}
