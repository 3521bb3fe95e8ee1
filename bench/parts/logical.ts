import { migrate } from '../../src/schema/migrator.ts'
import { fill, waybillTarget } from '../fill.ts'
import { type Context, type Part, type PartResult, figure, thousands } from '../part.ts'
import { createReceiver } from '../receiver.ts'
import { type BenchDatabase, type BenchServer, startBenchServer } from '../server.ts'
import { median, ratioOfRounds, rounded, spread } from '../statistics.ts'
import { findTool } from '../tools.ts'
import { type Entrant, deleteMissing, deleting, thousand } from './contestants.ts'
import { drainOnce } from './drain-once.ts'
import { makeTemplate, warmUpOf } from './drain-tables.ts'

const vsHistory = 'drain.vs_pg_recvlogical'
const vsDelete = 'drain.delete_vs_pg_recvlogical'
const receiver = 'pg_recvlogical'
const maxRounds = 3

/** Waybill against PostgreSQL's own reader of the WAL, which sends the events to nowhere and keeps no account of them. */
export const logicalPart: Part = {
  name: 'logical',
  owes: [vsHistory, vsDelete],
  async run(context) {
    const tool = context.withoutTools ? undefined : findTool(receiver)
    if (tool === undefined) {
      const reason = {
        missing: 'pg_recvlogical is not installed (Debian has it in postgresql-15 and its like)',
      }
      return { figures: { [vsHistory]: reason, [vsDelete]: reason }, sections: [] }
    }
    const taking = [thousand, deleting].filter(({ missing }) => missing === undefined)
    return resultOf(context, taking, await runRounds(context, tool, taking))
  },
}

/** Events per second in each round, by contestant. */
type Rates = Map<string, number[]>

async function runRounds(context: Context, tool: string, taking: readonly Entrant[]): Promise<Rates> {
  const { scale, log } = context
  const { rows, aggregates, warmUpRows } = scale.drain
  const rounds = Math.min(maxRounds, scale.drain.rounds)
  const rates: Rates = new Map()
  const note = (key: string, rate: number) => {
    rates.set(key, [...(rates.get(key) ?? []), rate])
    log(`logical: ${key}: ${thousands(rate)} events/s`)
  }
  // The same for both, since the reader of the WAL needs it.
  const server = await startBenchServer({ wal_level: 'logical' })
  try {
    await makeTemplate(server, 'waybill', warmUpOf('waybill'), {
      rows: warmUpRows,
      aggregates: warmUpRows / 40,
    })
    for (let round = 0; round < rounds; round++) {
      log(`logical, round ${round + 1} of ${rounds}: writing ${thousands(rows)} rows, one transaction each`)
      const database = await server.createDatabase('source')
      await migrate({ databaseUrl: database.url })
      const received = await createReceiver(tool, database)
      await fill(database, waybillTarget, { rows, aggregates })
      await database.query(`VACUUM ANALYZE ${waybillTarget.table}`)
      await received.mark()
      const receive = async () => note(receiver, (rows / (await received.run())) * 1000)
      const drain = () => drainCopies(context, server, database, taking, note)
      for (const turn of round % 2 === 0 ? [receive, drain] : [drain, receive]) await turn()
      await received.drop()
      await database.drop()
    }
  } finally {
    await server.stop()
  }
  return rates
}

async function drainCopies(
  context: Context,
  server: BenchServer,
  source: BenchDatabase,
  taking: readonly Entrant[],
  note: (key: string, rate: number) => void,
): Promise<void> {
  const { rows, warmUpRows } = context.scale.drain
  await source.close()
  for (const entrant of taking) {
    const warmUp = await server.createDatabase('warm_up', warmUpOf('waybill'))
    const database = await server.createDatabase('bench', 'source')
    const tables = { warmUp, warmUpRows, database, rows }
    const { eventsPerSecond } = await drainOnce(context, server, entrant, tables)
    note(entrant.key, eventsPerSecond)
    await warmUp.drop()
    await database.drop()
  }
}

function resultOf({ scale }: Context, taking: readonly Entrant[], rates: Rates): PartResult {
  const of = (key: string) => rates.get(key) ?? []
  return {
    figures: {
      [vsHistory]: figure(ratioOfRounds(of(thousand.key), of(receiver)), 'no round'),
      [vsDelete]: figure(ratioOfRounds(of(deleting.key), of(receiver)), deleteMissing),
    },
    sections: [
      {
        title: 'Drain, beside pg_recvlogical',
        notes: [
          `The same ${thousands(scale.drain.rows)} events, with \`wal_level = logical\` for both. pg_recvlogical reads them from the WAL with pgoutput and drops them; its start-up is measured and taken off.`,
        ],
        head: ['contestant', 'events/s', '× pg_recvlogical', 'spread'],
        rows: [{ key: receiver, title: receiver }, ...taking].map(({ key, title }) => [
          title,
          thousands(median(of(key))),
          rounded(ratioOfRounds(of(key), of(receiver))),
          `${Math.round(spread(of(key)) * 100)} %`,
        ]),
      },
    ],
  }
}
