import pg from 'pg'

/** What one kind of statement took, measured on this side, from sending it to its last row. */
export interface StatementTimes {
  count: number
  rows: number
  totalMs: number
  /** One figure for each statement that brought rows, the latest 20 000. */
  withRowsMs: number[]
}

/** By application name and name of the prepared statement, or the first words of its text. */
export type ClockReport = Record<string, StatementTimes>

export interface StatementClock {
  /** End of the last statement on connections of this application name, `performance.now()`; undefined: none. */
  lastEnd(applicationName: string): number | undefined
  report(): ClockReport
  /** Forgets what was measured so far. */
  reset(): void
}

const keptTimes = 20_000

type Query = (this: pg.Client, ...parameters: unknown[]) => unknown

/** Times every statement that goes through `pg` in this process. Costs two readings of the clock for each. */
export function startStatementClock(): StatementClock {
  const times = new Map<string, StatementTimes>()
  const lastEnds = new Map<string, number>()
  const prototype = pg.Client.prototype as unknown as { query: Query }
  const original = prototype.query
  prototype.query = function (this: pg.Client, ...parameters) {
    const startedAt = performance.now()
    const answer = original.apply(this, parameters)
    const application = applicationOf(this)
    const key = `${application} ${nameOf(parameters[0])}`
    function ended(rows: number): void {
      const endedAt = performance.now()
      lastEnds.set(application, endedAt)
      add(times, key, endedAt - startedAt, rows)
    }
    if (answer instanceof Promise) {
      answer.then(
        ({ rows }: { rows?: unknown[] }) => ended(rows?.length ?? 0),
        () => undefined,
      )
    } else if (isTextQuery(answer)) {
      const { callback } = answer
      answer.callback = (error, result) => {
        if (!error) ended(answer.taken.length)
        callback(error, result)
      }
    }
    return answer
  }
  return {
    lastEnd: (applicationName) => lastEnds.get(applicationName),
    report: () => Object.fromEntries(times),
    reset: () => times.clear(),
  }
}

/** One whose rows are taken as text; see database/connection.ts. */
interface TextQuery {
  callback: (error: unknown, result: unknown) => void
  readonly taken: readonly unknown[]
}

function isTextQuery(answer: unknown): answer is TextQuery {
  return typeof answer === 'object' && answer !== null && 'taken' in answer
}

function add(times: Map<string, StatementTimes>, key: string, ms: number, rows: number): void {
  let entry = times.get(key)
  if (entry === undefined) times.set(key, (entry = { count: 0, rows: 0, totalMs: 0, withRowsMs: [] }))
  entry.count++
  entry.rows += rows
  entry.totalMs += ms
  if (rows === 0) return
  if (entry.withRowsMs.length === keptTimes) entry.withRowsMs.shift()
  entry.withRowsMs.push(ms)
}

function applicationOf(client: pg.Client): string {
  const { connectionParameters } = client as unknown as {
    connectionParameters?: { application_name?: string }
  }
  return connectionParameters?.application_name ?? ''
}

function nameOf(query: unknown): string {
  if (typeof query === 'string') return firstWords(query)
  const { name, text = '' } = query as { name?: string; text?: string }
  return name ?? firstWords(text)
}

function firstWords(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ').slice(0, 40)
}
