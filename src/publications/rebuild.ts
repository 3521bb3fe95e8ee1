import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { checkReason, checkText, currentUser, usageInvalid } from '../input.ts'
import { pause } from '../pause.ts'
import type { RebuildMessage } from '../publishing/rebuild-message.ts'
import { closest, show } from '../wording.ts'
import type { FactSources } from './collect.ts'
import type { Place, Publication } from './publication.ts'
import { countMissing, readSource } from './rebuild-source.ts'
import { type RebuildTarget, type TargetState, createRebuildTarget } from './rebuild-target.ts'

export interface RebuildOptions {
  /** Only this aggregate. Default: every aggregate of the source. */
  readonly aggregate?: readonly [type: string, id: string]
  /** The consumer that applies the projection. Default: the one that the publication names. */
  readonly consumer?: string
  /** Kept with the decision. Default: `rebuilt`. */
  readonly reason?: string
  /** Who decides. Default: the user of the operating system. */
  readonly by?: string
  /** Aggregates that wait for the consumer at once. Default: 1 000. */
  readonly mostWaiting?: number
  /** Milliseconds for which no process of the consumer may be at work. Default: 30 000. */
  readonly patienceMs?: number
  /** Rows that one statement reads from the source. Default: 200. */
  readonly batch?: number
  /** Hears how many aggregates are rebuilt. */
  readonly onProgress?: (rebuilt: number) => void
  /** Ends the rebuild. What waits by then is rebuilt all the same. */
  readonly signal?: AbortSignal
}

/** What became of one publication of the projection. */
export interface RebuiltPublication {
  readonly publication: string
  readonly consumer: string
  /** Aggregates that were read from the source. */
  readonly read: number
  /** Those that the consumer has applied; also where a newer revision came first. */
  readonly rebuilt: number
  /** Those that wait for the consumer still. */
  readonly waiting: number
  /** Dead letters of the consumer since the rebuild began, and why one of them died. */
  readonly dead: number
  readonly deadReason: string | null
  /** Those of which the source has no revision that was handed over: left alone. */
  readonly notPublished: number
  /** Those whose history is larger than 64 MiB: left alone. */
  readonly tooLarge: number
  /** Aggregates that the projection knows and the source does not: left alone. Null: not counted. */
  readonly notInSource: number | null
}

/** The form of `waybill projection rebuild --json`. */
export interface RebuildReport {
  readonly projection: string
  readonly publications: readonly RebuiltPublication[]
  /** True when everything was rebuilt. */
  readonly complete: boolean
  /** Why it ended early. */
  readonly stopped: 'interrupted' | 'no-consumer' | 'dead-letters' | null
}

/** Dead letters after which something is wrong with all. */
const mostDead = 100
const lookEveryMs = 100

/**
 * Applies what the source has, as far as it was handed over, to a projection again, by the consumer that is at work,
 * while live events go on. Reads the source page by page, lets so many aggregates wait for the consumer at once, and
 * ends when it has taken the last. Asked for twice, at once or one after the other, it does no harm.
 *
 * @throws USAGE_INVALID for an unknown projection, or where the consumer cannot be told
 * @throws CONFIGURATION_INVALID, PERMISSION_DENIED for a source that cannot be read
 * @throws ACTION_REFUSED when no process of the consumer is at work
 */
export async function rebuildProjection(
  sources: FactSources,
  publications: ReadonlyMap<string, Publication>,
  projection: string,
  options: RebuildOptions = {},
): Promise<RebuildReport> {
  const reason = checkReason(options.reason ?? 'rebuilt')
  const chosen = choose(publications, projection, options.aggregate?.[0])
  const runs: Run[] = []
  for (const publication of chosen) runs.push(await prepare(sources, publication, projection, options))
  await decide(sources, runs, projection, { ...options, reason })
  const done: RebuiltPublication[] = []
  let stopped: RebuildReport['stopped'] = null
  for (const run of runs) {
    const before = done.reduce((sum, { rebuilt }) => sum + rebuilt, 0)
    const ended = await rebuildOne(sources, run, projection, options, before)
    done.push(ended.report)
    stopped = ended.stopped
    if (stopped !== null) break
  }
  const isWhole = done.every(({ dead, tooLarge }) => dead + tooLarge === 0)
  return { projection, publications: done, complete: stopped === null && isWhole, stopped }
}

interface Run {
  readonly publication: Publication
  readonly consumer: string
  readonly target: RebuildTarget
  readonly eventType: string
}

async function prepare(
  sources: FactSources,
  publication: Publication,
  projection: string,
  options: RebuildOptions,
): Promise<Run> {
  const eventType = publication.intent?.eventType
  if (eventType === undefined || publication.intent?.payload == null) {
    throw usageInvalid(
      `the publication ${show(publication.name)} does not say what its event looks like: configure intent.eventType and intent.payload`,
    )
  }
  const place = publication.projections.find(({ name }) => name === projection)!
  const at = sources.databaseOf(place)
  const found: { consumer: string; target: RebuildTarget; isAlive: boolean }[] = []
  for (const consumer of consumersOf(publication, place, options.consumer)) {
    const target = createRebuildTarget(at, { consumer, projection })
    await target.begin()
    const { isAlive } = await target.look(eventType, 1)
    found.push({ consumer, target, isAlive })
  }
  const alive = found.filter(({ isAlive }) => isAlive)
  if (alive.length > 1) {
    throw usageInvalid(
      `several consumers handle ${show(eventType)} (${alive.map(({ consumer }) => consumer).join(', ')}): say by --consumer which one applies the projection ${show(projection)}`,
    )
  }
  const [one] = alive
  if (one === undefined) throw nobodyAtWork(found.map(({ consumer }) => consumer).join(', '), eventType)
  return { publication, consumer: one.consumer, target: one.target, eventType }
}

/** The consumers that may have the projection: those in its own database, since both commit together. */
function consumersOf(publication: Publication, place: Place, wanted: string | undefined): readonly string[] {
  const here = publication.consumers
    .filter(({ databaseUrl, schema }) => databaseUrl === place.databaseUrl && schema === place.schema)
    .map(({ name }) => name)
  if (wanted !== undefined && (here.length === 0 || here.includes(wanted)))
    return [checkText('consumer', wanted, 100)]
  if (wanted === undefined && here.length > 0) return here
  throw usageInvalid(
    here.length === 0
      ? `the publication ${show(publication.name)} names no consumer in the database of the projection ${show(place.name)}: name it under "consumers", or by --consumer`
      : `unknown consumer ${show(wanted)}, expected one of ${here.join(', ')}`,
  )
}

function choose(
  publications: ReadonlyMap<string, Publication>,
  projection: string,
  type: string | undefined,
): readonly Publication[] {
  const all = [...publications.values()]
  const naming = all.filter(({ projections }) => projections.some(({ name }) => name === projection))
  const chosen = naming.filter(({ name }) => type === undefined || name === type)
  if (chosen.length > 0) return chosen
  const known = [...new Set(all.flatMap(({ projections }) => projections.map(({ name }) => name)))]
  const meant = closest(projection, known)
  if (naming.length > 0) {
    throw usageInvalid(
      `the projection ${show(projection)} is of ${naming.map(({ name }) => name).join(', ')}, not of ${show(type)}`,
    )
  }
  throw usageInvalid(
    known.length === 0
      ? `no publication names the projection ${show(projection)}: name it under "projections" of the publication that it shows`
      : `no publication names the projection ${show(projection)}, ${meant === undefined ? `expected one of ${known.join(', ')}` : `did you mean ${show(meant)}?`}`,
  )
}

async function decide(
  { outbox }: FactSources,
  runs: readonly Run[],
  projection: string,
  { aggregate, reason, by = currentUser() }: RebuildOptions & { reason: string },
): Promise<void> {
  const details = {
    projection,
    publications: runs.map(({ publication }) => publication.name),
    consumers: [...new Set(runs.map(({ consumer }) => consumer))],
  }
  const statement = `
    INSERT INTO "waybill".decisions (action, aggregate_type, aggregate_id, decided_by, reason, details)
    VALUES ('rebuilt', $1::text, $2::text, $3::text, $4::text, $5::text::jsonb)`
  await outbox.db.query(inSchema(statement, outbox.schema), [
    ...[aggregate?.[0] ?? null, aggregate?.[1] ?? null],
    ...[checkText('by', by, 200), reason, JSON.stringify(details)],
  ])
}

async function rebuildOne(
  sources: FactSources,
  { publication, consumer, target, eventType }: Run,
  projection: string,
  options: RebuildOptions,
  before: number,
): Promise<{ report: RebuiltPublication; stopped: RebuildReport['stopped'] }> {
  const {
    mostWaiting = 1_000,
    batch = 200,
    patienceMs = 30_000,
    signal = new AbortController().signal,
  } = options
  const id = options.aggregate?.[1] ?? null
  let read = 0
  let notPublished = 0
  let tooLarge = 0
  let state: TargetState = { waiting: 0, dead: 0, reason: null, isAlive: true }
  const rebuilt = () => Math.max(0, read - notPublished - tooLarge - state.waiting - state.dead)

  /** Waits until so few are left; answers why it is of no use to wait on. */
  async function waitFor(most: number): Promise<RebuildReport['stopped']> {
    let seenAt = performance.now()
    for (;;) {
      // Somebody else's rebuild may have put as many again.
      state = await target.look(eventType, mostWaiting + batch)
      options.onProgress?.(before + rebuilt())
      if (state.dead >= mostDead) return 'dead-letters'
      if (state.waiting <= most) return null
      if (state.isAlive) seenAt = performance.now()
      else if (performance.now() - seenAt > patienceMs) return 'no-consumer'
      if (signal.aborted) return 'interrupted'
      await pause(lookEveryMs, signal)
    }
  }

  async function give(): Promise<RebuildReport['stopped']> {
    for await (const page of readSource(sources.outbox, publication, { batch, id })) {
      if (signal.aborted) return 'interrupted'
      const messages = page.flatMap(({ id: aggregateId, revisions }): RebuildMessage[] =>
        revisions === null || revisions.length === 0
          ? []
          : [{ projection, eventType, aggregateType: publication.name, aggregateId, revisions }],
      )
      await target.put(messages)
      read += page.length
      tooLarge += page.filter(({ revisions }) => revisions === null).length
      notPublished += page.filter(({ revisions }) => revisions?.length === 0).length
      const stopped = await waitFor(Math.max(0, mostWaiting - batch))
      if (stopped !== null) return stopped
    }
    return waitFor(0)
  }

  const stopped = await give()
  if (stopped !== null) state = await target.look(eventType, mostWaiting + batch)
  const notInSource =
    stopped === null && id === null ? await countNotInSource(sources, publication, target, signal) : null
  const { waiting, dead, reason: deadReason } = state
  const counts = { read, rebuilt: rebuilt(), waiting, dead, deadReason, notPublished, tooLarge, notInSource }
  return { report: { publication: publication.name, consumer, ...counts }, stopped }
}

/** After the rebuild, so that what came meanwhile is in both. */
async function countNotInSource(
  { outbox }: FactSources,
  publication: Publication,
  target: RebuildTarget,
  signal: AbortSignal,
): Promise<number | null> {
  const page = 1_000
  let count = 0
  let ids = await target.projected(publication.name, '', page)
  while (ids.length > 0) {
    const missing = signal.aborted ? null : await countMissing(outbox.db, publication, ids)
    if (missing === null) return null
    count += missing
    ids = await target.projected(publication.name, ids.at(-1)!, page)
  }
  return count
}

function nobodyAtWork(consumers: string, eventType: string): WaybillError {
  return new WaybillError(
    'ACTION_REFUSED',
    `no process of the consumer ${show(consumers)} that handles ${show(eventType)} is at work, and only it can apply what is rebuilt: start it, then repeat this command`,
  )
}
