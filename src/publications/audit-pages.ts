import { inSchema, quoteIdentifier } from '../database/identifiers.ts'
import { describeError } from '../errors.ts'
import { eventStateSql } from '../schema/event-state.ts'
import type { EventState } from '../types.ts'
import type { Database, FactSources } from './collect.ts'
import { type ConsumerResult, shownRevisionSql } from './facts/consumer.ts'
import { findDestinations } from './facts/destinations.ts'
import { findFact, valueOf } from './facts/fact.ts'
import { relayedRevisionSql } from './facts/intent.ts'
import { revisionOf, typeOfColumn, typeOfId } from './facts/source.ts'
import { type ProjectionPlace, type Publication, quoteTable } from './publication.ts'
import {
  consumerSignOf,
  consumerWorst,
  destinationSignOf,
  intentSignOf,
  isLate,
  projectionSignOf,
  projectionWorst,
  worst,
} from './signs-of.ts'
import type { ConsumerSign, ProjectionSign, Signs } from './signs.ts'

/** One revision of the source with everything but the public reads. */
export interface AuditRow {
  readonly id: string
  readonly revision: string
  readonly signs: Omit<Signs, 'read'>
}

export interface AuditPage {
  readonly rows: readonly AuditRow[]
  /** Where the next page begins. */
  readonly last: { readonly id: string; readonly revision: string } | null
}

interface SourceRow {
  id: string
  revision: string
  state: EventState | null
  ageMs: number | null
  relayedAfterMs: number | null
  relayedRevision: string | null
}

interface ConsumerTold {
  readonly sign: ConsumerSign
  readonly applied: number
}

interface ProjectionTold {
  readonly sign: (revision: bigint, newest: string | null) => ProjectionSign
  readonly rows: number
}

export interface PageReader {
  first(): Promise<AuditPage>
  next(after: AuditPage): Promise<AuditPage>
  /** Owners whose facts could not be read, with the reason. */
  gaps(): readonly { name: string; reason: string }[]
}

/** Reads a publication page by page: of each owner one statement with an index look-up for each row of the page. */
export async function createPageReader(
  sources: FactSources,
  publication: Publication,
  batch: number,
): Promise<PageReader> {
  const { db, schema } = sources.outbox
  const type = await typeOfId(db, publication)
  const isHistory = publication.source.keeps === 'history'
  const statement = inSchema(pageStatement(publication, type), schema)
  // A role that may not read the relays audits all the rest.
  const told = await findFact('outbox outbox_relays', 5_000, () => findDestinations(db, schema))
  const destination = destinationSignOf(valueOf(told) ?? [])
  const gaps = new Map<string, string>()

  async function read(last: AuditPage['last']): Promise<AuditPage> {
    const { rows } = await db.query<SourceRow>(statement, [
      publication.name,
      last?.id ?? null,
      batch,
      ...(isHistory ? [last?.revision ?? null] : []),
    ])
    const consumers = await Promise.all(
      publication.consumers.map((place) => consumed(place.name, place, rows)),
    )
    const projections = await Promise.all(publication.projections.map((place) => projected(place, rows)))
    return {
      last: rows.length === 0 ? null : { id: rows.at(-1)!.id, revision: rows.at(-1)!.revision },
      rows: rows.map((row, n) => ({
        ...{ id: row.id, revision: row.revision },
        signs: signsOfRow(
          row,
          consumers.map((signs) => signs[n]!),
          projections.map((told) => told[n]!),
        ),
      })),
    }
  }

  function signsOfRow(
    row: SourceRow,
    consumed: readonly ConsumerTold[],
    projected: readonly ProjectionTold[],
  ): AuditRow['signs'] {
    const revision = BigInt(row.revision)
    const consumers = consumed.map(({ sign }) => sign)
    const projections = projected.map(({ sign }) => sign(revision, isHistory ? null : row.revision))
    const { state, relayedRevision, ageMs, relayedAfterMs } = row
    const intent = intentSignOf({ state, relayedRevision, consumers, projections }, revision)
    const consumer = worst(consumerWorst, consumers)
    const isTwice = consumed.some(({ applied }) => applied > 1) || projected.some((told) => told.rows > 1)
    return {
      ...{ source: 'here', intent, destination, consumer, projection: worst(projectionWorst, projections) },
      late: isLate(ageMs === null ? null : { ageMs, relayedAfterMs }, {
        ...{ intent, consumer, pendingLimitMs: publication.pendingLimitMs },
      }),
      twice: isTwice ? 'yes' : consumers.includes('unknown') ? 'unknown' : 'no',
    }
  }

  /** One owner's answers for a page; when it cannot be read, unknown for every row, and told once. */
  async function ask<Answer>(
    name: string,
    rows: readonly SourceRow[],
    unknown: Answer,
    look: () => Promise<readonly Answer[]>,
  ): Promise<readonly Answer[]> {
    if (rows.length === 0 || gaps.has(name)) return rows.map(() => unknown)
    try {
      return await look()
    } catch (error) {
      gaps.set(name, describeError(error, 200))
      return rows.map(() => unknown)
    }
  }

  function consumed(
    consumer: string,
    place: Parameters<FactSources['databaseOf']>[0],
    rows: readonly SourceRow[],
  ) {
    const unknown: ConsumerTold = { sign: 'unknown', applied: 0 }
    return ask(`consumer ${consumer}`, rows, unknown, async () => {
      const at = sources.databaseOf(place)
      // Index processed_events_aggregate.
      const { rows: found } = await at.db.query<{ result: ConsumerResult | null; applied: number }>(
        inSchema(consumedStatement, at.schema),
        [consumer, publication.name, rows.map((row) => row.id), rows.map((row) => row.revision)],
      )
      return found.map(({ result, applied }) => ({ sign: consumerSignOf(result), applied }))
    })
  }

  function projected(place: ProjectionPlace, rows: readonly SourceRow[]) {
    const unknown: ProjectionTold = { sign: () => 'unknown', rows: 0 }
    return ask(`projection ${place.name}`, rows, unknown, async () => {
      const at = sources.databaseOf(place)
      // The primary key.
      const { rows: found } = await at.db.query<{ revision: string | null }>(
        inSchema(projectedStatement, at.schema),
        [place.name, publication.name, rows.map((row) => row.id)],
      )
      const counts = await countRows(at, place, rows)
      return found.map(({ revision }, n) => ({
        sign: (asked: bigint, newest: string | null) =>
          projectionSignOf({ revision, rows: counts?.[n] ?? null }, asked, newest),
        rows: counts?.[n] ?? 1,
      }))
    })
  }

  return {
    first: () => read(null),
    next: ({ last }) => read(last),
    gaps: () => [...gaps].map(([name, reason]) => ({ name, reason })),
  }
}

/** $1 aggregate type, $2 the last id of the page before, $3 how many rows, $4 the last revision where all are kept. Each join is an index look-up. */
function pageStatement(publication: Publication, type: string): string {
  const { from, id, keeps } = publication.source
  const revision = revisionOf(publication)
  const beyond = `s.${id} > $2::text::${type}`
  const start =
    keeps === 'history'
      ? `(${beyond} OR (s.${id} = $2::text::${type} AND ${revision} > $4::text::numeric))`
      : beyond
  return `
  WITH page AS MATERIALIZED (
    SELECT s.${id}::text AS id, ${revision}::bigint AS revision,
           row_number() OVER (ORDER BY s.${id}, ${revision}) AS n
    FROM ${from} AS s
    WHERE $2::text IS NULL OR ${start}
    ORDER BY s.${id}${keeps === 'history' ? `, ${revision}` : ''} LIMIT $3::int
  )
  SELECT p.id AS "id", p.revision::text AS "revision", i.state AS "state", i.age_ms AS "ageMs",
         i.relayed_after_ms AS "relayedAfterMs", h.relayed::text AS "relayedRevision"
  FROM page AS p
  LEFT JOIN LATERAL (
    SELECT ${eventStateSql} AS state,
           (extract(epoch FROM now() - coalesce(e.processed_at, e.created_at)) * 1000)::float8 AS age_ms,
           (extract(epoch FROM e.processed_at - e.created_at) * 1000)::float8 AS relayed_after_ms
    FROM "waybill".outbox_events AS e
    WHERE e.aggregate_type = $1::text AND e.aggregate_id = p.id AND e.revision = p.revision AND e.intent_scope = ''
    LIMIT 1
  ) AS i ON true
  LEFT JOIN LATERAL (
    SELECT ${relayedRevisionSql('$1::text', 'p.id', "''", 'p.revision')} AS relayed
    FROM (SELECT) AS one LEFT JOIN "waybill".publication_heads AS h
      ON h.aggregate_type = $1::text AND h.aggregate_id = p.id AND h.intent_scope = ''
  ) AS h ON true
  ORDER BY p.n`
}

const consumedStatement = `
  SELECT c.result AS "result", coalesce(c.applied, 0) AS "applied"
  FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS k(id, revision, n)
  LEFT JOIN LATERAL (
    SELECT (array_agg(p.result ORDER BY p.processed_at DESC))[1] AS result,
           (count(*) FILTER (WHERE p.result = 'applied'))::int AS applied
    FROM (
      SELECT p.result, p.processed_at FROM "waybill".processed_events AS p
      WHERE p.aggregate_type = $2::text AND p.aggregate_id = k.id AND p.revision = k.revision
        AND p.consumer = $1::text
      ORDER BY p.processed_at DESC LIMIT 100
    ) AS p
  ) AS c ON true
  ORDER BY k.n`

const projectedStatement = `
  SELECT p.revision::text AS "revision"
  FROM unnest($3::text[]) WITH ORDINALITY AS k(id, n)
  LEFT JOIN LATERAL (
    SELECT ${shownRevisionSql} AS revision FROM "waybill".projection_revisions AS p
    WHERE p.projection = $1::text AND p.aggregate_type = $2::text AND p.aggregate_id = k.id LIMIT 1
  ) AS p ON true
  ORDER BY k.n`

/** How many rows a projection's own table has of each aggregate; null where no table is configured. */
async function countRows(
  { db }: Database,
  { table, id = 'id' }: ProjectionPlace,
  rows: readonly SourceRow[],
): Promise<readonly number[] | null> {
  if (table === undefined) return null
  const from = quoteTable(table)
  const column = quoteIdentifier(id)
  const type = await typeOfColumn(db, { from, column, table, option: 'projections' })
  const { rows: found } = await db.query<{ id: string; count: number }>(
    `SELECT s.${column}::text AS id, count(*)::int AS count FROM ${from} AS s
     WHERE s.${column} = ANY ($1::text[]::${type}[]) GROUP BY 1`,
    [rows.map((row) => row.id)],
  )
  const counts = new Map(found.map((row) => [row.id, row.count]))
  return rows.map((row) => counts.get(row.id) ?? 0)
}
