import { type Context, type Figure, type Part, type Section, figure, thousands } from '../part.ts'
import { startBenchServer } from '../server.ts'
import { median, ratioOfRounds, rounded, spread } from '../statistics.ts'
import {
  type Entrant,
  article,
  deleting,
  entrants,
  graphilePreset,
  graphileTuned,
  randomIds,
  slowPublisher,
  standard,
  thousand,
} from './contestants.ts'
import { type Drained, drainCopy } from './drain-once.ts'
import { makeTemplates } from './drain-tables.ts'

/** Which contestant is compared with which. */
const comparisons: Record<string, [of: Entrant, to: Entrant]> = {
  'drain.vs_article': [thousand, article],
  'drain.default_batch_vs_article': [standard, article],
  'drain.default_batch_vs_best': [standard, thousand],
  'drain.delete_vs_article': [deleting, article],
  'drain.random_ids_vs_article': [randomIds, article],
  'drain.vs_graphile_worker': [thousand, graphilePreset],
  'drain.vs_graphile_worker_tuned': [thousand, graphileTuned],
  'drain.publisher_2ms_vs_noop': [slowPublisher, thousand],
}
const leftOut = 'left out with --contestants'
const settledComparison = 'drain.settled_vs_article'
/** What an event costs both processes together: says more than speed on a machine that has other things to do. */
const cpuComparison = 'drain.cpu_of_article_vs_ours'

export const drainPart: Part = {
  name: 'drain',
  owes: [...Object.keys(comparisons), settledComparison, cpuComparison],
  async run(context) {
    const { contestants = entrants.map(({ key }) => key) } = context
    const taking = entrants.filter(({ key, missing }) => missing === undefined && contestants.includes(key))
    const drained = await runRounds(context, taking)
    return {
      figures: figuresOf(drained),
      sections: [sectionOf(context, taking, drained), statementsOf(drained)],
    }
  },
}

async function runRounds(context: Context, taking: readonly Entrant[]): Promise<Map<string, Drained[]>> {
  const { scale, log } = context
  const { rows, rounds } = scale.drain
  const drained = new Map<string, Drained[]>(taking.map(({ key }) => [key, []]))
  const server = await startBenchServer()
  try {
    log(`drain: writing ${thousands(rows)} rows for each kind of table, one transaction each`)
    await makeTemplates(server, new Set(taking.map(({ kind }) => kind)), scale.drain)
    for (let round = 0; round < rounds; round++) {
      // Another one begins each time.
      for (let turn = 0; turn < taking.length; turn++) {
        const entrant = taking[(turn + round) % taking.length]!
        const result = await drainCopy(context, server, entrant)
        drained.get(entrant.key)!.push(result)
        log(
          `drain, round ${round + 1} of ${rounds}: ${entrant.title}: ${thousands(result.eventsPerSecond)} events/s`,
        )
      }
    }
  } finally {
    await server.stop()
  }
  return drained
}

function figuresOf(drained: ReadonlyMap<string, Drained[]>): Record<string, Figure> {
  const rates = (entrant: Entrant, of: (round: Drained) => number) => (drained.get(entrant.key) ?? []).map(of)
  const figures: Record<string, Figure> = {}
  for (const [path, [of, to]] of Object.entries(comparisons)) {
    const bySpeed = (entrant: Entrant) => rates(entrant, (round) => round.eventsPerSecond)
    figures[path] = figure(ratioOfRounds(bySpeed(of), bySpeed(to)), of.missing ?? to.missing ?? leftOut)
  }
  const settled = (entrant: Entrant) => rates(entrant, (round) => round.settledPerSecond)
  figures[settledComparison] = figure(ratioOfRounds(settled(thousand), settled(article)), leftOut)
  const cpu = (entrant: Entrant) =>
    rates(entrant, ({ cpuMs, serverCpuMs }) => (serverCpuMs === null ? Number.NaN : cpuMs + serverCpuMs))
  figures[cpuComparison] = figure(ratioOfRounds(cpu(article), cpu(thousand)), 'left out, or no Linux')
  return figures
}

function sectionOf(
  { scale }: Context,
  taking: readonly Entrant[],
  drained: ReadonlyMap<string, Drained[]>,
): Section {
  const { rows, aggregates, rounds } = scale.drain
  const base = drained.get(article.key) ?? []
  return {
    title: 'Drain',
    notes: [
      `${thousands(rows)} events of about 300 bytes over ${thousands(aggregates)} aggregates, each written by a transaction of its own, to a publisher that does nothing. The ids are those that the library gives (UUIDv7); "at random" are those of a plain INSERT. Medians of ${rounds} interleaved rounds; ratios are medians of the ratios within a round. Every contestant runs in a Node.js process of its own that has drained ${thousands(scale.drain.warmUpRows)} other events before; each drain works on a copy of the same files, vacuumed, analyzed, in the server's memory, after a checkpoint.`,
      'events/s: from the first to the last call of the publisher. settled/s: until the last event was settled in the table.',
    ],
    head: [
      'contestant',
      'events/s',
      '× usual relay',
      'settled/s',
      'Node.js µs/event',
      'PostgreSQL µs/event',
      'spread',
    ],
    rows: taking.map(({ key, title }) => {
      const mine = drained.get(key)!
      const speeds = mine.map((round) => round.eventsPerSecond)
      const times = ratioOfRounds(
        speeds,
        base.map((round) => round.eventsPerSecond),
      )
      return [
        title,
        thousands(median(speeds)),
        rounded(times),
        thousands(median(mine.map((round) => round.settledPerSecond))),
        rounded(median(mine.map(({ cpuMs }) => (cpuMs / rows) * 1000))),
        serverMicros(mine, rows),
        `${Math.round(spread(speeds) * 100)} %`,
      ]
    }),
  }
}

function serverMicros(rounds: readonly Drained[], rows: number): number | null {
  const known = rounds.flatMap(({ serverCpuMs }) => (serverCpuMs === null ? [] : [serverCpuMs]))
  return known.length === 0 ? null : rounded((median(known) / rows) * 1000)
}

/** Where the time of Waybill's drains goes: the statements of the relay, as it waits for them. */
function statementsOf(drained: ReadonlyMap<string, Drained[]>): Section {
  const rows = [standard, thousand, deleting].flatMap(({ key, title }) => {
    const last = drained.get(key)?.at(-1)
    if (last === undefined) return []
    return Object.entries(last.statements)
      .filter(([, { totalMs }]) => totalMs > last.settledMs / 50)
      .map(([name, { count, totalMs }]) => [
        title,
        name,
        count,
        rounded(totalMs / count),
        rounded((totalMs / last.published) * 1000),
        `${Math.round((totalMs / last.settledMs) * 100)} %`,
      ])
  })
  return {
    title: 'Where the drain waits',
    notes: [
      'Statements of the relay in the last round, from sending them to their last row. Reading and marking run side by side on two connections: what is near 100 % sets the pace.',
    ],
    head: ['contestant', 'connection and statement', 'times', 'ms each', 'µs/event', 'of the drain'],
    rows,
  }
}
