import { unsettledStates } from '../schema/event-state.ts'
import type { EventState } from '../types.ts'
import type { Named } from './collect.ts'
import type { Answers } from './explain.ts'
import type { ConsumerFact, ConsumerResult, ProjectionFact } from './facts/consumer.ts'
import { type Fact, valueOf } from './facts/fact.ts'
import type { ReadFact } from './facts/read.ts'
import type { Trace } from './trace.ts'

/** How a step looks to who searches for a fault: as it should be, not there yet, a fault, or neither. */
export type Tone = 'good' | 'open' | 'bad' | 'quiet'

/** One step of the chain, for people. */
export interface Step {
  /** Which owner, or which of several. */
  readonly who: string
  /** Where it was looked up. */
  readonly source: string
  /** False: it could not be looked up, and the text says why. */
  readonly known: boolean
  /** UTC, ISO 8601; null: at no known moment. */
  readonly at: string | null
  readonly text: string
  readonly tone: Tone
}

type Told = Pick<Step, 'at' | 'text' | 'tone'>

/** What the facts of a trace tell, in the order of the chain: from the source to the reader, then what people did. */
export function stepsOf({ facts, revision }: Trace): readonly Step[] {
  return [
    ...tell('source', facts.source, (source) => ({
      at: null,
      text: source.holdsRevision
        ? `holds revision ${revision}${source.newestRevision === revision ? '' : `; its newest is ${source.newestRevision}`}`
        : source.newestRevision === null
          ? 'has no row of this aggregate'
          : `its newest revision is ${source.newestRevision}`,
      tone: source.holdsRevision ? 'good' : 'open',
    })),
    ...tell(revision === null ? 'event' : 'intent', facts.intent, ({ row, headRevision }) =>
      row === null
        ? {
            at: null,
            text: `there is none${headRevision === null ? '' : `; the newest intended is ${headRevision}`}`,
            tone: 'open',
          }
        : {
            at: row.createdAt,
            text: `${revision === null ? `${row.eventType}, ` : ''}${row.state}, event ${row.eventId}`,
            tone: stateTones[row.state],
          },
    ),
    ...tell('commit', facts.commit, (commit) =>
      commit === null
        ? null
        : {
            at: commit.at,
            text: commit.exact ? 'committed' : 'transaction began (commit times are not kept)',
            tone: 'quiet',
          },
    ),
    ...tell('write API', facts.answer, (answer) =>
      answer === null ? null : { at: answer.answeredAt, text: 'answered "accepted"', tone: 'quiet' },
    ),
    ...relaySteps(facts),
    ...facts.consumers.flatMap(consumerStep),
    ...facts.projections.flatMap((one) => projectionStep(one, revision)),
    ...facts.reads.flatMap((one) => readStep(one, revision)),
    ...tell('replays', facts.replays, (replays) => {
      const last = replays.at(-1)
      if (last === undefined) return null
      const { number, requestedBy, state, requestedAt } = last
      return { at: requestedAt, text: `number ${number} by ${requestedBy}: ${state}`, tone: 'quiet' }
    }),
    ...tell('decisions', facts.decisions, (decisions) => {
      const last = decisions.at(-1)
      if (last === undefined) return null
      return {
        at: last.decidedAt,
        text: `${last.action} by ${last.decidedBy}: ${last.reason}`,
        tone: 'quiet',
      }
    }),
  ]
}

const stateTones: Readonly<Record<EventState, Tone>> = {
  ...{ pending: 'open', retrying: 'open', blocked: 'open' },
  ...{ published: 'good', dead: 'bad', discarded: 'quiet' },
}

function relaySteps({ bucket, destinations, intent }: Trace['facts']): readonly Step[] {
  const state = valueOf(intent)?.row?.state
  const waits = state !== undefined && unsettledStates.includes(state)
  return [
    ...tell('relay', bucket, ({ readAt, isOwned, bucket: number }) => ({
      at: readAt,
      text: `${readAt === null ? 'never read' : 'last read'} bucket ${number}${isOwned ? '' : ', which nobody owns now'}`,
      tone: isOwned ? 'quiet' : 'open',
    })),
    // Of interest while the event waits; who they are is not known of each event.
    ...(valueOf(destinations) ?? [])
      .filter((destination) => waits && destination.state === 'down')
      .map(({ name, since, error }): Step => ({
        ...{ who: 'relay', source: destinations.source, known: true, at: since, tone: 'bad' },
        text: `the destination ${name} is down${error === null ? '' : `: ${error}`}`,
      })),
    ...tell('relay', intent, ({ row }) =>
      row === null || (row.attempts === 0 && row.lastError === null)
        ? null
        : {
            at: row.lastAttemptAt,
            text: `${row.attempts} counted ${row.attempts === 1 ? 'attempt' : 'attempts'}${row.lastError === null ? '' : `, last: ${row.lastError}`}`,
            tone: 'open',
          },
    ).filter(({ known }) => known),
    ...tell('relay', intent, ({ row }) =>
      row?.processedAt == null
        ? null
        : {
            at: row.processedAt,
            text: `handed over${row.receipt === null ? '' : `, receipt ${row.receipt}`}`,
            tone: 'good',
          },
    ).filter(({ known }) => known),
  ]
}

const resultTones: Readonly<Record<ConsumerResult, Tone>> = {
  ...{ applied: 'good', stale: 'quiet', rejected: 'bad', parked: 'bad' },
}

function consumerStep({ name, fact }: Named<ConsumerFact>): readonly Step[] {
  return tell(`consumer ${name}`, fact, ({ result, processedAt, error, applied, handles }) => ({
    at: processedAt,
    text: `${result ?? (handles === false ? 'has no handler for this type' : 'nothing recorded')}${applied > 1 ? ` ${applied} times` : ''}${error === null ? '' : `: ${error}`}`,
    tone: applied > 1 ? 'bad' : result !== null ? resultTones[result] : handles === false ? 'quiet' : 'open',
  }))
}

function projectionStep({ name, fact }: Named<ProjectionFact>, revision: string | null): readonly Step[] {
  return tell(`projection ${name}`, fact, ({ revision: shown, skippedTo, appliedAt, rows }) => ({
    at: appliedAt,
    text: `${skippedTo !== null ? `released from waiting up to revision ${skippedTo}` : shown === null ? 'does not know it' : `revision ${shown}`}${rows === null || rows === 1 ? '' : `, ${rows} rows in its table`}`,
    tone: reaches(shown, revision) && (rows ?? 1) === 1 ? 'good' : 'open',
  }))
}

function readStep({ name, fact }: Named<ReadFact>, revision: string | null): readonly Step[] {
  return tell(`read ${name}`, fact, ({ httpStatus, revision: shown, noRevision, headers, answeredAt }) => {
    const cache = Object.entries(headers).map(([header, value]) => `${header}: ${value}`)
    return {
      at: answeredAt,
      // Where there is no revision for the status alone, it is told once.
      text: [
        ...new Set([`HTTP ${httpStatus}`, shown === null ? noRevision : `revision ${shown}`, ...cache]),
      ].join(', '),
      tone: reaches(shown, revision) ? 'good' : 'open',
    }
  })
}

/** True when what is shown is the revision that was asked for, or a later one. */
export function reaches(shown: string | null, revision: string | null): boolean {
  return shown !== null && revision !== null && BigInt(shown) >= BigInt(revision)
}

/** No step for what is not configured, or when there is nothing to tell. */
function tell<T>(who: string, fact: Fact<T>, toTell: (value: T) => Told | null): readonly Step[] {
  if (fact.status === 'not-configured') return []
  const { source } = fact
  if (fact.status === 'unknown')
    return [{ who, source, known: false, at: null, text: `unknown: ${fact.reason}`, tone: 'open' }]
  const told = toTell(fact.value)
  return told === null ? [] : [{ who, source, known: true, ...told }]
}

/** The five questions of a publication with their answers; null is open. */
export function questionsOf(
  answers: Answers,
): readonly (readonly [question: string, answer: string | null])[] {
  return [
    ['where is the canonical revision', answers.canonicalRevision],
    ['where is the intent', answers.intent],
    ['which key repeats it', answers.repeatKey],
    ['which revision is confirmed', answers.confirmedRevision],
    ['what does a public read show', answers.publicRead],
  ]
}
