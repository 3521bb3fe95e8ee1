import type { EventState } from '../types.ts'
import { eventStateSql, unsettledStates } from '../schema/event-state.ts'
import { checkMoment, checkStates, checkText, usageInvalid } from '../input.ts'

/** Which events; all conditions must hold. */
export interface EventFilter {
  /** Any of these states. Default: all. */
  states?: readonly string[]
  /** The aggregate's type and id. */
  aggregate?: readonly [type: string, id: string]
  eventType?: string
}

/** Which dead letters; all conditions must hold. */
export interface DeadLetterFilter {
  aggregate?: readonly [type: string, id: string]
  eventType?: string
  /** Part of the reason, in upper or lower case. */
  error?: string
  /** Became a dead letter before this: a date (its first instant in UTC) or a time with its zone. */
  before?: string
}

/** A checked filter, in the form in which statements take it. */
export interface Conditions {
  readonly states: readonly EventState[] | null
  readonly aggregateType: string | null
  readonly aggregateId: string | null
  readonly eventType: string | null
  readonly error: string | null
  readonly before: string | null
}

/** @throws USAGE_INVALID */
export function checkEventFilter(filter: EventFilter & DeadLetterFilter): Conditions {
  const { aggregate } = filter
  if (aggregate !== undefined && aggregate.length !== 2)
    throw usageInvalid('an aggregate is a type and an id')
  return {
    states:
      filter.states === undefined || filter.states.length === 0
        ? null
        : checkStates([...new Set(filter.states)]),
    aggregateType: aggregate === undefined ? null : checkText('aggregate type', aggregate[0]),
    aggregateId: aggregate === undefined ? null : checkText('aggregate id', aggregate[1]),
    eventType: filter.eventType === undefined ? null : checkText('event type', filter.eventType),
    error: filter.error === undefined ? null : checkText('error', filter.error, 500),
    before: filter.before === undefined ? null : checkMoment('before', filter.before),
  }
}

/** True when the filter asks for more than states: then rows have to be looked through. */
export function isSelective({ aggregateType, eventType, error, before }: Conditions): boolean {
  return aggregateType !== null || eventType !== null || error !== null || before !== null
}

/** Takes the six values of {@link conditionValues} as the parameters from `first` on. */
export function conditionsSql(first: number): string {
  const p = (offset: number) => `$${first + offset}`
  return `(${p(0)}::text[] IS NULL OR (${eventStateSql}) = ANY (${p(0)}::text[]))
        AND (${p(1)}::text IS NULL OR (e.aggregate_type = ${p(1)}::text AND e.aggregate_id = ${p(2)}::text))
        AND (${p(3)}::text IS NULL OR e.event_type = ${p(3)}::text)
        AND (${p(4)}::text IS NULL OR position(lower(${p(4)}::text) IN lower(e.last_error)) > 0)
        AND (${p(5)}::text IS NULL OR e.dead_at < ${p(5)}::text::timestamptz)`
}

/** `states: null` when the rows that are looked at have no other state anyway. */
export function conditionValues(conditions: Conditions, states = conditions.states): unknown[] {
  const { aggregateType, aggregateId, eventType, error, before } = conditions
  return [states, aggregateType, aggregateId, eventType, error, before]
}

/** The places where events of some states can be found in position order. */
export type EventSource = 'all' | 'unsettled' | 'dead'

const statesOf: Readonly<Record<Exclude<EventSource, 'all'>, readonly EventState[]>> = {
  unsettled: unsettledStates,
  dead: ['dead'],
}

/**
 * Where to look, so that a rare state is found without walking through what was published: the two small partial
 * indexes when they hold everything that is wanted, otherwise the whole table.
 */
export function sourcesOf(states: readonly EventState[] | null): readonly EventSource[] {
  if (states === null || states.includes('published') || states.includes('discarded')) return ['all']
  return (['unsettled', 'dead'] as const).filter((source) => statesOf[source].some((s) => states.includes(s)))
}

/** The states to test for in a source; null when every row there is wanted. */
export function statesToTest(
  source: EventSource,
  states: readonly EventState[] | null,
): readonly EventState[] | null {
  if (states === null || source === 'all') return states
  return statesOf[source].every((state) => states.includes(state)) ? null : states
}
