import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { inSchema } from '../../src/database/identifiers.ts'
import { atEndOfFile } from './cleanups.ts'
import { type TestDatabase, onceThere } from './postgres.ts'

/** What a fault made of the events. Everything but `written` and `delivered` ought to be 0. */
export interface Verdict {
  /** Events that were committed. */
  written: number
  /** Of these, how many arrived at least once. */
  delivered: number
  /** Arrivals beyond the first of each event. */
  duplicates: number
  /** Committed, and never arrived. */
  lost: number
  /** Events that first arrived after a later one of their aggregate. */
  outOfOrder: number
  /** Arrivals whose bytes are not those that were committed. */
  altered: number
  /** Arrivals of events that were never committed. */
  phantoms: number
  /** Events whose commit was acknowledged, and which the database has not. */
  vanished: number
}

export interface Arrival {
  eventId: string
  /** As it was received. */
  body: string | Uint8Array
}

export interface WriterOptions {
  /** Connections that write at the same time. Default: 3. */
  count?: number
  /** Default: 20. */
  aggregates?: number
  /** Longest pause between two transactions of a writer, in milliseconds. Default: 10. */
  pauseMs?: number
  /** Where to write. Default: the ledger's database. */
  url?: string
  /** Characters of filling in each payload. Default: 20. */
  filling?: number
  /** Each transaction waits for it. Default: none waits. */
  ready?: () => Promise<void>
}

export interface WriteOptions {
  /** Default: 20. */
  aggregates?: number
  /** Characters of filling in each payload. Default: 20. */
  filling?: number
  /** SQL that the transaction begins with. */
  first?: string
  /** What happens between that and the writing. */
  meanwhile?: () => Promise<void>
  /** SQL that runs right before the commit, in the same round trip. */
  beforeCommit?: string
}

export interface Writers {
  /** Events whose commit was acknowledged so far. */
  readonly committed: number
  /** Transactions that failed, or were rolled back on purpose. */
  readonly failed: number
  /** Resolves when so many events were committed. */
  untilCommitted(count: number): Promise<void>
  /** Ends the writing; an open transaction is finished first. */
  stop(): Promise<void>
}

/**
 * Knows independently of the outbox what was committed: each writer counts up a version of the aggregate's own row
 * and notes the event beside it, in the transaction that writes the event. The row's lock makes the versions of an
 * aggregate the order of its commits.
 */
export interface Ledger {
  startWriters(options?: WriterOptions): Writers
  /** Writes so many events in one transaction over the aggregates in turn; they count as acknowledged. */
  write(count: number, options?: WriteOptions): Promise<void>
  /** To be called by whatever stands for the broker, at the moment in which it has the message. */
  arrived(arrival: Arrival): void
  /** `performance.now()` of each arrival, in order. */
  readonly arrivedAt: readonly number[]
  /** Resolves when everything that is committed by now has arrived; rejects after `limitMs` (20 000). */
  untilDelivered(limitMs?: number): Promise<void>
  /** Resolves when so many more arrivals came; rejects after `limitMs` (20 000). */
  untilArrivals(more: number, limitMs?: number): Promise<void>
  verdict(): Promise<Verdict>
}

// The update comes first in each event's life, so that its position is drawn under the aggregate's lock.
const tables = `
  CREATE SCHEMA ledger;
  CREATE TABLE ledger.aggregates (id text PRIMARY KEY, version integer NOT NULL DEFAULT 0);
  CREATE TABLE ledger.events (
    aggregate text NOT NULL, version integer NOT NULL, event_id uuid NOT NULL UNIQUE, payload jsonb NOT NULL,
    PRIMARY KEY (aggregate, version)
  );
  CREATE FUNCTION ledger.write(aggregate text, event_id uuid, filling text) RETURNS void LANGUAGE sql AS $$
    WITH mine AS (
      UPDATE ledger.aggregates AS a SET version = a.version + 1 WHERE a.id = aggregate RETURNING a.version
    ), noted AS (
      INSERT INTO ledger.events (aggregate, version, event_id, payload)
      SELECT aggregate, version, event_id,
             jsonb_build_object('aggregate', aggregate, 'version', version, 'filling', filling)
      FROM mine RETURNING *
    )
    INSERT INTO "waybill".outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT n.event_id, 'ledger', n.aggregate, 'ledger.counted', n.payload FROM noted AS n
  $$;
  CREATE FUNCTION ledger.write_many(ids uuid[], aggregates integer, filling text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      FOR n IN 1..cardinality(ids) LOOP
        PERFORM ledger.write('a-' || (n - 1) % aggregates + 1, ids[n], filling);
      END LOOP;
    END
  $$;`

interface Written {
  aggregate: string
  version: number
  eventId: string
  body: string
}

/** @param database migrated; may be reached at another address after a failover: `url` is asked each time. */
export async function createLedger(
  database: Pick<TestDatabase, 'schema'> & { url: string | (() => string) },
): Promise<Ledger> {
  const arrivals: { eventId: string; hash: string }[] = []
  const arrivedAt: number[] = []
  const acknowledged = new Set<string>()
  const watchers = new Set<() => void>()
  const url = () => (typeof database.url === 'string' ? database.url : database.url())

  async function connected<T>(use: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = await connect(url())
    try {
      return await use(client)
    } finally {
      await client.end().catch(() => undefined)
    }
  }
  await connected((client) => client.query(inSchema(tables, database.schema)))

  async function prepare(count: number): Promise<void> {
    await connected((client) =>
      client.query(
        `INSERT INTO ledger.aggregates (id) SELECT 'a-' || n FROM generate_series(1, $1) AS n ON CONFLICT DO NOTHING`,
        [count],
      ),
    )
  }

  function readWritten(): Promise<Written[]> {
    // What arrives may have been in a relay's memory when the server went.
    return onceThere(() =>
      connected(async (client) => {
        const { rows } = await client.query<Written>(
          `SELECT aggregate, version, event_id AS "eventId", payload::text AS body FROM ledger.events`,
        )
        return rows
      }),
    )
  }

  function until(reached: () => boolean, limitMs: number, missing: () => string): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        watchers.delete(look)
        clearTimeout(timer)
        settle()
      }
      const look = () => {
        if (reached()) end(resolve)
      }
      const timer = setTimeout(
        () => end(() => reject(new Error(`${missing()} after ${limitMs} ms`))),
        limitMs,
      )
      watchers.add(look)
      look()
    })
  }

  return {
    arrivedAt,
    startWriters: (options = {}) => startWriters({ url: url(), acknowledged, prepare, ...options }),
    async write(count, { aggregates = 20, filling = 20, first = '', meanwhile, beforeCommit = '' } = {}) {
      await prepare(aggregates)
      await connected(async (client) => {
        const ids = Array.from({ length: count }, () => randomUUID())
        await client.query('BEGIN')
        await client.query(inSchema(first, database.schema))
        await meanwhile?.()
        await client.query('SELECT ledger.write_many($1, $2, $3)', [ids, aggregates, 'x'.repeat(filling)])
        await client.query(`${beforeCommit}; COMMIT`)
        for (const id of ids) acknowledged.add(id)
      })
    },
    arrived({ eventId, body }) {
      arrivals.push({ eventId, hash: hashOf(body) })
      arrivedAt.push(performance.now())
      for (const watcher of watchers) watcher()
    },
    async untilDelivered(limitMs = 20_000) {
      const missing = new Set((await readWritten()).map(({ eventId }) => eventId))
      let seen = 0
      await until(
        () => {
          for (; seen < arrivals.length; seen++) missing.delete(arrivals[seen]!.eventId)
          return missing.size === 0
        },
        limitMs,
        () => `${missing.size} committed events have not arrived`,
      )
    },
    untilArrivals(more, limitMs = 20_000) {
      const wanted = arrivals.length + more
      return until(
        () => arrivals.length >= wanted,
        limitMs,
        () => `${wanted - arrivals.length} of ${more} arrivals are missing`,
      )
    },
    async verdict() {
      return judge(await readWritten(), arrivals, acknowledged)
    },
  }
}

/** Everything committed arrived, nothing twice, each aggregate in order, every byte the same. */
export function whole(written: number): Verdict {
  return {
    ...{ written, delivered: written, duplicates: 0, lost: 0 },
    ...{ outOfOrder: 0, altered: 0, phantoms: 0, vanished: 0 },
  }
}

function judge(
  written: readonly Written[],
  arrivals: readonly { eventId: string; hash: string }[],
  acknowledged: ReadonlySet<string>,
): Verdict {
  const byId = new Map(written.map((event) => [event.eventId, event]))
  const newest = new Map<string, number>()
  const seen = new Set<string>()
  const verdict: Verdict = whole(written.length)
  for (const { eventId, hash } of arrivals) {
    const event = byId.get(eventId)
    if (event === undefined) {
      verdict.phantoms++
      continue
    }
    if (hash !== hashOf(event.body)) verdict.altered++
    if (seen.has(eventId)) {
      verdict.duplicates++
      continue
    }
    seen.add(eventId)
    const before = newest.get(event.aggregate) ?? 0
    if (event.version < before) verdict.outOfOrder++
    newest.set(event.aggregate, Math.max(before, event.version))
  }
  verdict.delivered = seen.size
  verdict.lost = written.length - seen.size
  for (const id of acknowledged) if (!byId.has(id)) verdict.vanished++
  return verdict
}

function startWriters(
  options: WriterOptions & {
    url: string
    acknowledged: Set<string>
    prepare: (aggregates: number) => Promise<void>
  },
): Writers {
  const { url, count = 3, aggregates = 20, pauseMs = 10, filling = 20, ready, acknowledged } = options
  let stopping = false
  let committed = 0
  let failed = 0
  const watchers = new Set<() => void>()

  async function write(client: pg.Client, n: number): Promise<void> {
    const ids: string[] = []
    await client.query('BEGIN')
    // Sorted, so that two writers cannot wait for each other.
    const chosen = Array.from({ length: 1 + random(3) }, () => 1 + random(aggregates)).sort((a, b) => a - b)
    for (const aggregate of chosen) {
      const id = randomUUID()
      await client.query('SELECT ledger.write($1, $2, $3)', [`a-${aggregate}`, id, 'x'.repeat(filling)])
      ids.push(id)
    }
    // Some commit late, some not at all: neither the order of the numbers nor their completeness can be relied on.
    if (random(4) === 0) await delay(random(30))
    if (n % 15 === 14) {
      await client.query('ROLLBACK')
      failed++
      return
    }
    const { command } = await client.query('COMMIT')
    if (command !== 'COMMIT') throw new Error(`the commit was answered with ${command}`)
    for (const id of ids) acknowledged.add(id)
    committed += ids.length
    for (const watcher of watchers) watcher()
  }

  async function run(): Promise<void> {
    let client: pg.Client | undefined
    for (let n = 0; !stopping; n++) {
      try {
        client ??= await connect(url)
        await ready?.()
        await write(client, n)
        await delay(random(pauseMs + 1))
      } catch {
        failed++
        await client?.end().catch(() => undefined)
        client = undefined
        await delay(50)
      }
    }
    await client?.end().catch(() => undefined)
  }

  const loops = options.prepare(aggregates).then(() => Promise.all(Array.from({ length: count }, run)))
  loops.catch(() => undefined)
  const stop = async () => {
    stopping = true
    await loops
  }
  atEndOfFile(() => stop().catch(() => undefined))
  return {
    get committed() {
      return committed
    },
    get failed() {
      return failed
    },
    untilCommitted: (wanted) =>
      new Promise((resolve) => {
        const look = () => {
          if (committed < wanted) return
          watchers.delete(look)
          resolve()
        }
        watchers.add(look)
        look()
      }),
    stop,
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'ledger',
    connectionTimeoutMillis: 5_000,
  })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

function hashOf(body: string | Uint8Array): string {
  return createHash('sha256').update(body).digest('base64')
}

function random(below: number): number {
  return Math.floor(Math.random() * below)
}
