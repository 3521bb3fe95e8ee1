import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { pause } from '../pause.ts'
import type { Queryable } from '../types.ts'
import type { Projection } from './projection.ts'
import { readRevision, skippedMark } from './projection-statements.ts'

/** Type and id. */
export type AggregatePair = readonly [type: string, id: string]

/** How far a projection is behind what was published. */
export interface Freshness {
  /**
   * `current`: the projection shows the newest published revision, or a newer one. `behind`: it shows an older one, or
   * none yet. `unknown`: nothing was published of this aggregate, as far as is known.
   */
  readonly state: 'current' | 'behind' | 'unknown'
  /** The newest published revision. */
  readonly canonical: bigint | null
  /** The revision that the projection shows; null also between a release and the next revision. */
  readonly projected: bigint | null
  /** Since when it is behind: when the oldest revision that it lacks was written; ISO 8601. Null where nobody knows. */
  readonly since: string | null
}

export interface FreshnessOptions {
  readonly projection: Pick<Projection<never>, 'name' | 'schema'>
  /** Where the projection is: a `Pool` or client of `pg`. */
  readonly database: Queryable
  /**
   * Where the newest published revision stands. Default: the outbox in the same database and schema. `database` and
   * `schema` name another outbox; a function asks whatever knows it.
   */
  readonly canonical?:
    | { readonly database?: Queryable; readonly schema?: string; readonly scope?: string }
    | ((aggregate: AggregatePair) => Promise<bigint | null>)
}

/** The read side of a projection. */
export interface FreshnessReader {
  freshness(aggregate: AggregatePair): Promise<Freshness>
  /**
   * Waits until the projection shows this revision or a newer one, and answers which: to read one's own write.
   *
   * @param options.timeoutMs default 5000
   * @throws PROJECTION_BEHIND when it does not in time; `details` tells what it shows
   */
  waitUntilVisible(
    aggregate: AggregatePair,
    revision: bigint | number,
    options?: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<bigint>
}

/** $1 $2 aggregate, $3 scope, $4 projected revision or null. Primary key of the heads; index outbox_events_revision. */
const newest = `
  SELECT h.revision::text,
         (SELECT to_char(min(e.created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
          FROM "waybill".outbox_events AS e
          WHERE e.aggregate_type = h.aggregate_type AND e.aggregate_id = h.aggregate_id
            AND e.intent_scope = h.intent_scope AND e.revision > coalesce($4::text::bigint, -1)) AS since
  FROM "waybill".publication_heads AS h
  WHERE h.aggregate_type = $1::text AND h.aggregate_id = $2::text AND h.intent_scope = $3::text`

const firstPauseMs = 10
const longestPauseMs = 250

export function freshnessReader({ projection, database, canonical = {} }: FreshnessOptions): FreshnessReader {
  const read = inSchema(readRevision, projection.schema)

  async function projected([type, id]: AggregatePair): Promise<bigint | null> {
    const { rows } = await database.query(read, [projection.name, type, id])
    // What was decided to be skipped is not shown; until the next revision is, nobody knows what is.
    if (rows[0] === undefined || rows[0]['event_id'] === skippedMark) return null
    return BigInt(rows[0]['revision'] as string)
  }

  async function published(
    [type, id]: AggregatePair,
    shown: bigint | null,
  ): Promise<{ revision: bigint | null; since: string | null }> {
    if (typeof canonical === 'function') return { revision: await canonical([type, id]), since: null }
    const { database: outbox = database, schema = projection.schema, scope = '' } = canonical
    const values = [type, id, scope, shown === null ? null : String(shown)]
    const { rows } = await outbox.query(inSchema(newest, schema), values)
    const [row] = rows
    if (row === undefined) return { revision: null, since: null }
    return { revision: BigInt(row['revision'] as string), since: row['since'] as string | null }
  }

  return {
    async freshness(aggregate) {
      // In this order: a revision that comes between makes the answer older than the truth, never newer.
      const shown = await projected(aggregate)
      const { revision, since } = await published(aggregate, shown)
      if (revision === null) return { state: 'unknown', canonical: null, projected: shown, since: null }
      const behind = shown === null || shown < revision
      return {
        state: behind ? 'behind' : 'current',
        canonical: revision,
        projected: shown,
        since: behind ? since : null,
      }
    },
    async waitUntilVisible(aggregate, wanted, { timeoutMs = 5_000, signal } = {}) {
      const revision = BigInt(wanted)
      const deadline = performance.now() + timeoutMs
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
        const shown = await projected(aggregate)
        if (shown !== null && shown >= revision) return shown
        const leftMs = deadline - performance.now()
        if (leftMs <= 0 || signal?.aborted === true)
          throw behind(projection.name, aggregate, revision, shown, timeoutMs)
        await pause(Math.min(pauseMs, leftMs), ...(signal === undefined ? [] : [signal]))
      }
    },
  }
}

function behind(
  name: string,
  aggregate: AggregatePair,
  revision: bigint,
  shown: bigint | null,
  timeoutMs: number,
): WaybillError {
  const what = shown === null ? 'nothing of it' : `revision ${shown}`
  return new WaybillError(
    'PROJECTION_BEHIND',
    `the projection ${JSON.stringify(name)} did not show revision ${revision} of ${JSON.stringify(aggregate.join(' '))} within ${timeoutMs} ms, it shows ${what}: answer "accepted" instead of "visible", or wait longer`,
    { details: { projection: name, aggregate, revision, projected: shown } },
  )
}

/** What headers can be set on: `Headers`, or a response of `node:http`. */
export type HeaderSink =
  { set(name: string, value: string): unknown } | { setHeader(name: string, value: string): unknown }

/**
 * Tells in a response which revision it shows and how fresh that is, so that an interface can tell "accepted" from
 * "visible": `x-waybill-revision: 7`, `x-waybill-freshness: behind; canonical=9; since=2026-03-01T10:00:00.123456Z`.
 */
export function setFreshness(target: HeaderSink, { state, canonical, projected, since }: Freshness): void {
  const set = (name: string, value: string) =>
    'setHeader' in target ? target.setHeader(name, value) : target.set(name, value)
  if (projected !== null) set('x-waybill-revision', String(projected))
  const details = [
    ...(canonical === null ? [] : [`canonical=${canonical}`]),
    ...(since === null ? [] : [`since=${since}`]),
  ]
  set('x-waybill-freshness', [state, ...details].join('; '))
}
