import { checkSchemaName, inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { object, oneOf, integer, resolveOptions, string } from '../options.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { ClientAdapter, Queryable } from '../types.ts'
import { EventParked, outcomesOf } from './outcomes.ts'
import { pgQueries } from './pg-queries.ts'
import {
  forgetRevision,
  lockProjection,
  readRevision,
  skippedMark,
  takeNewer,
} from './projection-statements.ts'

export const projectionSpec = object({
  name: string({ maxLength: 100 }).describe(
    'The name under which the projection keeps the revision of each aggregate.',
  ),
  mode: oneOf('latest', 'contiguous')
    .default('latest')
    .describe(
      '`latest` applies a revision when it is above the stored one; `contiguous` applies each revision in turn, and parks one that comes too early.',
    ),
  firstRevision: integer({ min: 0, max: Number.MAX_SAFE_INTEGER })
    .default(1)
    .describe('The first revision of an aggregate, in the mode `contiguous`.'),
  maxParked: integer({ min: 1, max: 100_000 })
    .default(1_000)
    .describe('How far a revision may be ahead in the mode `contiguous`; one that is further ahead fails.'),
})

export interface ProjectionOptions<Tx = Queryable> {
  readonly name: string
  /** Default: `latest`. */
  readonly mode?: 'latest' | 'contiguous'
  /** The first revision of an aggregate, in the mode `contiguous`. Default: 1. */
  readonly firstRevision?: number
  /** How far ahead a revision may be, in the mode `contiguous`. Default: 1000. */
  readonly maxParked?: number
  /** Where the tables are. Default: `waybill`. */
  readonly schema?: string
  /** The adapter of another client library than `pg`. */
  readonly client?: ClientAdapter<Tx>
}

/** `applied`: the writes are in the transaction. `duplicate`, `stale`: they were left out, nothing is thrown. */
export type ProjectionResult = 'applied' | 'duplicate' | 'stale'

/** What a projection looks at. */
export type Revised = Pick<ReceivedEvent, 'id' | 'aggregateType' | 'aggregateId' | 'revision'>

/** Keeps what is built from events from going back to an older revision, whatever the order of arrival. */
export interface Projection<Tx = Queryable> {
  readonly name: string
  readonly mode: 'latest' | 'contiguous'
  readonly schema: string
  /**
   * Runs `write` when the event brings a revision that is wanted, inside the transaction of the handler. A second
   * transaction for the same aggregate waits.
   *
   * In the mode `contiguous` a revision that comes too early is thrown out of the handler, whose transaction is rolled
   * back, and waits in the database until the ones before it have come.
   *
   * @throws EVENT_INVALID for an event without a revision; what `write` throws, after which the transaction must not
   *   commit (a consumer sees to that)
   */
  apply(tx: Tx, event: Revised, write: () => unknown): Promise<ProjectionResult>
  /** The stored revision; null when there is none. */
  revision(tx: Tx, aggregate: readonly [type: string, id: string]): Promise<bigint | null>
  /**
   * Forgets the revision of an aggregate, so that the next one is taken whatever its number: for an aggregate that was
   * deleted and may be created again with revisions from the start.
   */
  forget(tx: Tx, aggregate: readonly [type: string, id: string]): Promise<void>
}

/**
 * A projection.
 *
 *     const publicNotes = projection({ name: 'public_notes' })
 *     await publicNotes.apply(tx, event, () => tx.query('INSERT INTO public_notes … ON CONFLICT …'))
 *
 * @throws CONFIGURATION_INVALID
 */
export function projection<Tx = Queryable>(options: ProjectionOptions<Tx>): Projection<Tx> {
  const {
    schema: schemaName = 'waybill',
    client = pgQueries as unknown as ClientAdapter<Tx>,
    ...written
  } = options
  const { name, mode, firstRevision, maxParked } = resolveOptions(projectionSpec, written, {
    path: 'projection',
  })
  const schema = checkSchemaName(schemaName)
  const query = (tx: Tx, sql: string, ...params: string[]) =>
    client.query(tx, inSchema(sql, schema), [name, ...params])

  async function stored(
    tx: Tx,
    pair: readonly [string, string],
  ): Promise<{ revision: bigint; eventId: string } | null> {
    const [row] = await query(tx, readRevision, ...pair)
    return row === undefined
      ? null
      : { revision: BigInt(row['revision'] as string), eventId: row['event_id'] as string }
  }

  /** Throws when it is not this revision's turn yet. */
  async function awaitTurn(tx: Tx, pair: readonly [string, string], revision: bigint): Promise<void> {
    await query(tx, lockProjection, ...pair)
    const before = await stored(tx, pair)
    const expected = before === null ? BigInt(firstRevision) : before.revision + 1n
    if (revision <= expected) return
    if (revision - expected > BigInt(maxParked)) throw tooFar(name, revision, expected, maxParked)
    throw new EventParked(name, revision, expected)
  }

  async function apply(tx: Tx, event: Revised, write: () => unknown): Promise<ProjectionResult> {
    const { revision, id, aggregateType, aggregateId } = event
    if (revision === null) throw withoutRevision(name, event)
    const pair = [aggregateType, aggregateId] as const
    const outcomes = outcomesOf(event as ReceivedEvent)
    if (mode === 'contiguous') await awaitTurn(tx, pair, revision)
    const taken = await query(tx, takeNewer, ...pair, String(revision), id)
    if (taken.length === 0) {
      const there = await stored(tx, pair)
      outcomes.stale.push(whyNotTaken(name, revision, there))
      return there?.revision === revision && there.eventId !== skippedMark ? 'duplicate' : 'stale'
    }
    try {
      await write()
    } catch (error) {
      outcomes.hasFailed = true
      outcomes.failed = error
      throw error
    }
    outcomes.applied++
    if (mode === 'contiguous') outcomes.filled.push({ projection: name, revision })
    return 'applied'
  }

  return {
    name,
    mode,
    schema,
    apply,
    revision: async (tx, pair) => (await stored(tx, pair))?.revision ?? null,
    async forget(tx, pair) {
      await query(tx, forgetRevision, ...pair)
    },
  }
}

function whyNotTaken(
  name: string,
  revision: bigint,
  there: { revision: bigint; eventId: string } | null,
): string {
  if (there?.revision !== revision)
    return `${name} has revision ${there?.revision ?? 'unknown'}, newer than ${revision}`
  return there.eventId === skippedMark
    ? `${name} was released from waiting for revision ${revision}`
    : `revision ${revision} is in ${name} already, by the event ${there.eventId}`
}

function withoutRevision(name: string, { id, aggregateType, aggregateId }: Revised): WaybillError {
  return new WaybillError(
    'EVENT_INVALID',
    `the event ${id} of ${JSON.stringify(aggregateType)} ${JSON.stringify(aggregateId)} has no revision, so the projection ${JSON.stringify(name)} cannot place it: publish it with one`,
  )
}

function tooFar(name: string, revision: bigint, expected: bigint, maxParked: number): WaybillError {
  return new WaybillError(
    'EVENT_INVALID',
    `revision ${revision} is more than ${maxParked} ahead of ${expected}, which the projection ${JSON.stringify(name)} waits for: find out what became of that one, or raise maxParked`,
  )
}
