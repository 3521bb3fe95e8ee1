import type { Facts } from './collect.ts'
import { visibleRevision } from './decisions.ts'
import { valueOf } from './facts/fact.ts'
import type { PublicationKey, TraceKey } from './key.ts'
import type { Publication } from './publication.ts'
import { whyNoReplay } from './replayable.ts'
import type { Verdict } from './verdict.ts'

/**
 * One command that is safe to run: it looks, or it repeats exactly this key, or it asks for a reason. It is not refused
 * for what the facts tell already: then it looks.
 */
export function safeCommand(
  { action }: Verdict,
  key: TraceKey,
  facts: Facts,
  publication: Publication | null,
): string {
  const row = valueOf(facts.intent)?.row ?? null
  switch (action) {
    case 'decide-intent':
      return key.revision === null ? traceOf(key) : decideCommand(key, facts, publication)
    case 'retry-dead':
      return row === null ? 'waybill dead list' : `waybill dead retry ${row.eventId}`
    case 'discard-dead':
      return row === null ? 'waybill dead list' : `waybill dead discard ${row.eventId} --reason "…"`
    case 'release-blocker':
      return row?.blockedBy == null ? 'waybill status' : `waybill trace ${row.blockedBy}`
    case 'repair-relay':
    case 'run-relay':
    case 'restore-destination':
    case 'ask-consumer':
      return 'waybill status'
    case 'retry-consumer':
      return retryCommand(facts)
    case 'find-gap':
      return traceOf(key.revision === null ? key : { ...key, revision: missingBefore(key, facts) })
    case 'repair-consumer':
      return key.revision !== null && mayBeReplayed(key, facts, publication)
        ? commandOn(key, 'waybill replay', '--reason "…"')
        : traceOf(key)
    case 'rebuild-projection': {
      const name = oldProjection(facts, key)
      return name === undefined
        ? traceOf(key)
        : `waybill projection rebuild ${quoted(name)} --aggregate ${quoted(key.type)} ${quoted(key.id)}`
    }
    default:
      return traceOf(key)
  }
}

const traceOf = (key: TraceKey) =>
  key.revision === null ? `waybill trace ${key.eventId}` : commandOn(key, 'waybill trace')

/** An intent below a newer one would be refused: the newer one is what to look at. */
function decideCommand(key: PublicationKey, facts: Facts, publication: Publication | null): string {
  const newest = valueOf(facts.intent)?.headRevision ?? null
  if (newest !== null && BigInt(newest) > key.revision) return traceOf({ ...key, revision: BigInt(newest) })
  const type = publication?.intent == null ? ' --type "…"' : ''
  const payload = publication?.intent?.payload == null ? ' --payload "…"' : ''
  return commandOn(key, 'waybill intent create', `--reason "…"${type}${payload}`)
}

function mayBeReplayed(key: PublicationKey, facts: Facts, publication: Publication | null): boolean {
  const source = valueOf(facts.source) ?? null
  if (publication !== null && source === null) return false
  if (valueOf(facts.replays)?.some(({ state }) => state === 'pending') !== false) return false
  const intent = valueOf(facts.intent)
  if (intent === undefined) return false
  return whyNoReplay({ intent, source, visibleRevision: visibleRevision(facts) }, publication, key) === null
}

function retryCommand({ consumers }: Facts): string {
  for (const { name, fact } of consumers) {
    const { result, eventId } = valueOf(fact) ?? {}
    if (result === 'rejected' && eventId != null)
      return `waybill consumer dead retry ${quoted(eventId)} --consumer ${quoted(name)}`
  }
  return 'waybill consumer dead list'
}

/** The first revision that some projection lacks; where no projection tells, the one before. */
function missingBefore({ revision }: PublicationKey, { projections }: Facts): bigint {
  const next = projections
    .map(({ fact }) => valueOf(fact))
    .map((held) => held?.skippedTo ?? held?.revision)
    .filter((held) => held != null)
    .map((held) => BigInt(held) + 1n)
    .filter((missing) => missing < revision)
  if (next.length > 0) return next.reduce((least, one) => (one < least ? one : least))
  return revision > 0n ? revision - 1n : revision
}

/** The projection that shows less than this revision. */
function oldProjection({ projections }: Facts, { revision }: TraceKey): string | undefined {
  if (revision === null) return undefined
  return projections.find(({ fact }) => {
    const shown = valueOf(fact)
    if (shown === undefined) return false
    return shown.revision === null || BigInt(shown.revision) < revision || shown.rows === 0
  })?.name
}

/** `waybill trace note n-42 7`; where a word begins with "-" behind the options: `waybill trace -- note -x 7`. */
function commandOn({ type, id, revision, scope }: PublicationKey, command: string, more = ''): string {
  const place = `${quoted(type)} ${quoted(id)} ${revision}`
  const options = [scope === '' ? '' : `--scope ${quoted(scope)}`, more].filter((part) => part !== '')
  return type.startsWith('-') || id.startsWith('-')
    ? [command, ...options, '--', place].join(' ')
    : [command, place, ...options].join(' ')
}

/** As a shell reads it. */
function quoted(word: string): string {
  return /^[\w@%+:,./-][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
