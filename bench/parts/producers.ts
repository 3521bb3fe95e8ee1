import { migrate } from '../../src/schema/migrator.ts'
import { type Context, type Figure, type Part, type PartResult, figure, thousands } from '../part.ts'
import { startRelay } from '../relays.ts'
import { type BenchDatabase, startBenchServer } from '../server.ts'
import { median, ratioOfRounds, rounded } from '../statistics.ts'
import { findTool } from '../tools.ts'
import { type Producers, createProducers } from '../transactions.ts'
import {
  type Condition,
  alone,
  aloneOn,
  asleep,
  conditions,
  enter,
  off,
  on,
  perRow,
  producerTables,
} from './producer-conditions.ts'

const most = 32
/** How long a commit takes on a usual network disk. */
const slowCommitMicros = 1000
const warmUpSeconds = 1

/** One cell of the table. */
interface Setting {
  clients: number
  slowCommit: boolean
}

const comparisons: Record<string, [of: Condition, to: Condition, setting: Setting]> = {
  'producer.wakeup_on_vs_off_1': [on, off, { clients: 1, slowCommit: false }],
  'producer.wakeup_on_vs_off_8': [on, off, { clients: 8, slowCommit: false }],
  'producer.wakeup_on_vs_off_32': [on, off, { clients: most, slowCommit: false }],
  'producer.wakeup_on_vs_off_32_slow_commit': [on, off, { clients: most, slowCommit: true }],
  'producer.wakeup_on_vs_off_32_without_relay': [aloneOn, alone, { clients: most, slowCommit: false }],
  'producer.wakeup_on_vs_alone_32': [on, alone, { clients: most, slowCommit: false }],
  'producer.sleeping_relay_vs_off_32': [asleep, off, { clients: most, slowCommit: false }],
  'producer.sleeping_relay_vs_off_32_slow_commit': [asleep, off, { clients: most, slowCommit: true }],
  'producer.notify_per_row_vs_off_32': [perRow, off, { clients: most, slowCommit: false }],
  'producer.notify_per_row_vs_off_32_slow_commit': [perRow, off, { clients: most, slowCommit: true }],
}

export const producersPart: Part = {
  name: 'producers',
  owes: Object.keys(comparisons),
  async run(context) {
    const producers = createProducers(
      context.withoutTools ? undefined : findTool('pgbench'),
      context.children,
    )
    try {
      return resultOf(context, producers, await runRounds(context, producers))
    } finally {
      producers.close()
    }
  },
}

/** Transactions per second in each round, by condition and setting. */
type Rates = Map<string, number[]>

function keyOf({ key }: Condition, { clients, slowCommit }: Setting): string {
  return `${key} ${clients}${slowCommit ? ' slow commits' : ''}`
}

function settingsOf({ scale }: Context): Setting[] {
  const fast = scale.producers.clients.map((clients) => ({ clients, slowCommit: false }))
  return [...fast, { clients: most, slowCommit: true }]
}

async function runRounds(context: Context, producers: Producers): Promise<Rates> {
  const { scale, log } = context
  const rates: Rates = new Map()
  const server = await startBenchServer()
  try {
    const database = await server.createDatabase('bench')
    await migrate({ databaseUrl: database.url })
    await database.query(producerTables)
    for (let round = 0; round < scale.producers.rounds; round++) {
      for (const setting of settingsOf(context)) {
        await setCommits(database, setting)
        const order = round % 2 === 0 ? conditions : conditions.toReversed()
        for (const condition of order.filter(({ relay }) => relay !== null || setting.clients === most)) {
          const rate = await measure(context, producers, database, condition, setting.clients)
          const key = keyOf(condition, setting)
          rates.set(key, [...(rates.get(key) ?? []), rate])
          log(`producers, round ${round + 1} of ${scale.producers.rounds}: ${key}: ${thousands(rate)}/s`)
        }
      }
    }
  } finally {
    await server.stop()
  }
  return rates
}

/** For the sessions that begin from now on: the producers' and the relay's. */
async function setCommits(database: BenchDatabase, { slowCommit }: Setting): Promise<void> {
  // commit_siblings: otherwise a commit waits only when others are under way.
  await database.query(
    slowCommit
      ? `ALTER DATABASE bench SET commit_delay = ${slowCommitMicros}; ALTER DATABASE bench SET commit_siblings = 0`
      : 'ALTER DATABASE bench RESET ALL',
  )
}

async function measure(
  { scale, children }: Context,
  producers: Producers,
  database: BenchDatabase,
  condition: Condition,
  clients: number,
): Promise<number> {
  const leave = await enter(database, condition)
  await database.query('CHECKPOINT')
  const { seconds } = scale.producers
  const relay =
    condition.relay === null
      ? undefined
      : startRelay(
          children,
          { url: database.url, wakeup: condition.relay },
          { seconds: seconds + warmUpSeconds },
        )
  try {
    await relay?.warm()
    // A relay that slept wakes up here.
    await producers.run(database, clients, warmUpSeconds)
    return await producers.run(database, clients, seconds)
  } finally {
    await relay?.stop()
    await leave()
  }
}

function resultOf(context: Context, producers: Producers, rates: Rates): PartResult {
  const of = (condition: Condition, setting: Setting) => rates.get(keyOf(condition, setting)) ?? []
  const figures: Record<string, Figure> = {}
  for (const [path, [one, other, setting]] of Object.entries(comparisons)) {
    figures[path] = figure(ratioOfRounds(of(one, setting), of(other, setting)), 'not measured')
  }
  const settings = settingsOf(context)
  return {
    figures,
    sections: [
      {
        title: 'Producers',
        notes: [
          `Transactions a second, one order row and one event each, by ${producers.title}; in brackets the ratio to "${off.title}". Medians of ${context.scale.producers.rounds} rounds of ${context.scale.producers.seconds} s. The relays publish to nowhere what is written meanwhile. Slow commits take 1 ms, as on network disks (\`commit_delay\`).`,
        ],
        head: [
          'condition',
          ...settings.map(({ clients, slowCommit }) => `${clients} ${slowCommit ? 'slow' : 'clients'}`),
        ],
        rows: conditions.map((condition) => [
          condition.title,
          ...settings.map((setting) => {
            const mine = of(condition, setting)
            if (mine.length === 0) return '–'
            return `${thousands(median(mine))} (${rounded(ratioOfRounds(mine, of(off, setting))) ?? '–'})`
          }),
        ]),
      },
    ],
  }
}
