import { describeError, hasCode } from '../errors.ts'
import { configurationInvalid } from '../options.ts'
import { closest } from '../wording.ts'
import { showName } from './headers.ts'
import { undeliverable } from './publisher.ts'

/** Where an event goes. */
export interface RouteTarget {
  /** Name of a destination. */
  to: string
  /** Topic, subject, routing key, stream or queue. Default: `outbox.event.<aggregateType>`. */
  topic?: string
  /** Address for this event, for destinations that take one (webhook); guarded against private addresses. */
  url?: string
}

/** What a route may look at; the payload is not parsed. */
export interface RoutableEvent {
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly eventType: string
  readonly headers: Readonly<Record<string, string>>
}

/** One line of the table of routes; patterns may hold `*` for any run of characters. The first match wins. */
export interface RouteRule extends RouteTarget {
  aggregateType?: string
  eventType?: string
}

/** Finds the destination of an event; null when no route matches. A throw makes that event a dead letter. */
export type Route = (event: RoutableEvent) => RouteTarget | null

// Pairs that are remembered. Types are few; an outbox that invents them for each event must not fill the memory.
const memoryLimit = 10_000

/**
 * The one function that finds an event's destination, from a table of rules or from a function of the user's.
 * With one destination and no rules everything goes there.
 *
 * The function it returns answers null when no rule matches, and throws
 * EVENT_UNDELIVERABLE when the user's function throws or names a destination that does not exist.
 *
 * @throws CONFIGURATION_INVALID when a rule names an unknown destination, or when rules are needed and missing
 */
export function createRouter(
  routes: readonly RouteRule[] | Route | undefined,
  destinations: readonly string[],
): Route {
  if (typeof routes === 'function') return guardedRoute(routes, new Set(destinations))
  if (routes === undefined || routes.length === 0) return soleRoute(destinations)
  checkRules(routes, destinations)
  return rememberingRoute(routes.map(compileRule))
}

function soleRoute(destinations: readonly string[]): Route {
  const [only] = destinations
  if (only === undefined || destinations.length > 1) {
    throw configurationInvalid([
      only === undefined
        ? 'expected destinations to name at least one destination'
        : `expected routes to say which of the ${destinations.length} destinations an event goes to ` +
          `(${destinations.join(', ')}); a last rule {"to": "${only}"} takes all the rest`,
    ])
  }
  const target = Object.freeze({ to: only })
  return () => target
}

function checkRules(rules: readonly RouteRule[], destinations: readonly string[]): void {
  const problems: string[] = []
  rules.forEach((rule, index) => {
    if (!destinations.includes(rule.to))
      problems.push(`routes[${index}].to: ${unknown(rule.to, destinations)}`)
    if (rule.topic === '') problems.push(`expected routes[${index}].topic to be text, got an empty text`)
  })
  if (problems.length > 0) throw configurationInvalid(problems)
}

function unknown(to: string, destinations: readonly string[]): string {
  const near = closest(to, destinations)
  const hint =
    near === undefined ? `expected one of ${destinations.join(', ')}` : `did you mean ${showName(near)}?`
  return `unknown destination ${showName(to)}, ${hint}`
}

interface CompiledRule {
  readonly matches: (aggregateType: string, eventType: string) => boolean
  readonly target: RouteTarget
}

function compileRule({ aggregateType = '*', eventType = '*', to, topic, url }: RouteRule): CompiledRule {
  const aggregates = compilePattern(aggregateType)
  const events = compilePattern(eventType)
  return {
    matches: (aggregate, event) => aggregates(aggregate) && events(event),
    target: Object.freeze({
      to,
      ...(topic === undefined ? {} : { topic }),
      ...(url === undefined ? {} : { url }),
    }),
  }
}

/**
 * `*` stands for any run of characters, also none. Each part is looked for once, from left to right, so that no
 * text and no pattern can make this slow, as they can with a regular expression.
 */
export function compilePattern(pattern: string): (text: string) => boolean {
  const parts = pattern.split('*')
  if (parts.length === 1) return (text) => text === pattern
  const first = parts[0]!
  const last = parts.at(-1)!
  const middle = parts.slice(1, -1).filter((part) => part !== '')
  return (text) => {
    if (text.length < first.length + last.length) return false
    if (!text.startsWith(first) || !text.endsWith(last)) return false
    const end = text.length - last.length
    let from = first.length
    for (const part of middle) {
      const at = text.indexOf(part, from)
      if (at === -1 || at + part.length > end) return false
      from = at + part.length
    }
    return true
  }
}

function rememberingRoute(rules: readonly CompiledRule[]): Route {
  let known = new Map<string, Map<string, RouteTarget | null>>()
  let size = 0
  return ({ aggregateType, eventType }) => {
    let ofAggregate = known.get(aggregateType)
    const remembered = ofAggregate?.get(eventType)
    if (remembered !== undefined) return remembered
    const target = rules.find((rule) => rule.matches(aggregateType, eventType))?.target ?? null
    if (size >= memoryLimit) {
      known = new Map()
      ofAggregate = undefined
      size = 0
    }
    if (ofAggregate === undefined) known.set(aggregateType, (ofAggregate = new Map()))
    ofAggregate.set(eventType, target)
    size++
    return target
  }
}

function guardedRoute(route: Route, destinations: ReadonlySet<string>): Route {
  return (event) => {
    const target = callRoute(route, event)
    if (target === null || target === undefined) return null
    checkTarget(target, destinations)
    return target
  }
}

function callRoute(route: Route, event: RoutableEvent): RouteTarget | null | undefined {
  try {
    return route(event)
  } catch (cause) {
    if (hasCode(cause, 'EVENT_UNDELIVERABLE')) throw cause
    throw undeliverable(`the route function failed: ${describeError(cause, 300)}`, { cause })
  }
}

/** A function of the user's may answer anything. */
function checkTarget(target: RouteTarget, destinations: ReadonlySet<string>): void {
  const { to, topic, url } = target as Partial<Record<keyof RouteTarget, unknown>>
  if (typeof to !== 'string') {
    // Nobody waits for it, and its rejection must not end the process.
    if (target instanceof Promise) target.catch(() => undefined)
    throw undeliverable(
      target instanceof Promise
        ? 'the route function returned a promise, it must answer at once'
        : 'the route function must return {to, topic?, url?} or null',
    )
  }
  if (!destinations.has(to)) throw undeliverable(`the route function: ${unknown(to, [...destinations])}`)
  if (topic !== undefined && typeof topic !== 'string')
    throw undeliverable('the route function gave a topic that is not text')
  if (url !== undefined && typeof url !== 'string')
    throw undeliverable('the route function gave a url that is not text')
}
