import { migrate } from '../../src/schema/migrator.ts'
import { type Context, type Figure, type Part, type PartResult, figure } from '../part.ts'
import { type BenchDatabase, type BenchServer, startBenchServer } from '../server.ts'
import { median, ratioOfRounds, rounded } from '../statistics.ts'
import { type ClaimCondition, claimConditions } from './claim-conditions.ts'
import { type Claimed, claimOnce } from './claim-once.ts'

/** One round: first without the condition, then with it. */
interface Round {
  healthy: Claimed
  burdened: Claimed
}

export const claimPart: Part = {
  name: 'claim',
  owes: claimConditions.flatMap(({ key }) => [`claim.${key}`, `claim_delivery.${key}`]),
  async run(context) {
    const measured = new Map<ClaimCondition, Round[]>()
    const server = await startBenchServer()
    try {
      const healthy = await makeDatabase(server, 'healthy')
      for (const condition of claimConditions) {
        measured.set(condition, await measure(context, server, healthy, condition))
      }
    } finally {
      await server.stop()
    }
    return resultOf(context, measured)
  },
}

async function makeDatabase(server: BenchServer, name: string): Promise<BenchDatabase> {
  const database = await server.createDatabase(name)
  await migrate({ databaseUrl: database.url })
  return database
}

async function measure(
  context: Context,
  server: BenchServer,
  healthy: BenchDatabase,
  { key, title, prepare, relay = {} }: ClaimCondition,
): Promise<Round[]> {
  const { scale, log } = context
  log(`claim: ${title(scale.claim)}: writing them`)
  const database = await makeDatabase(server, key)
  await prepare(database, scale.claim)
  await database.query('CHECKPOINT')
  const rounds: Round[] = []
  for (let round = 0; round < scale.claim.rounds; round++) {
    const without = await claimOnce(context, healthy, relay)
    const burdened = await claimOnce(context, database, relay)
    rounds.push({ healthy: without, burdened })
    log(
      `claim, round ${round + 1} of ${scale.claim.rounds}: ${key}: ` +
        `${burdened.claimMs.toFixed(2)} ms, healthy ${without.claimMs.toFixed(2)} ms`,
    )
  }
  await database.drop()
  return rounds
}

function resultOf({ scale }: Context, measured: ReadonlyMap<ClaimCondition, Round[]>): PartResult {
  const figures: Record<string, Figure> = {}
  for (const [{ key }, rounds] of measured) {
    const times = (of: (claimed: Claimed) => number) =>
      ratioOfRounds(
        rounds.map(({ burdened }) => of(burdened)),
        rounds.map(({ healthy }) => of(healthy)),
      )
    const lost = Math.max(...rounds.map(({ burdened }) => burdened.missing))
    const stands = `the relay stood still: ${lost} events of other aggregates were not delivered in the whole measurement`
    figures[`claim.${key}`] = figure(
      times(({ claimMs }) => claimMs),
      stands,
    )
    figures[`claim_delivery.${key}`] = figure(
      times(({ deliveryMs }) => deliveryMs),
      stands,
    )
  }
  const { seconds, rounds } = scale.claim
  const middle = (of: Round[], value: (round: Round) => number) => rounded(median(of.map(value)))
  return {
    figures,
    sections: [
      {
        title: 'Looking for work',
        notes: [
          `A relay at its defaults while 400 events a second trickle in, in a healthy table and in one with something in it. Medians of ${rounds} alternating rounds of ${seconds} s, after a warm-up. A claim is a read of the relay that brought rows, timed by the relay.`,
        ],
        head: [
          'condition',
          'claim, ms',
          'healthy, ms',
          'ratio',
          'p95, ms',
          'reading, ms/s',
          'healthy, ms/s',
          'delivery, ms',
          'healthy, ms',
          'first event, ms',
          'missing',
        ],
        rows: [...measured].map(([{ key, title }, of]) => [
          title(scale.claim),
          middle(of, ({ burdened }) => burdened.claimMs),
          middle(of, ({ healthy }) => healthy.claimMs),
          valueOf(figures[`claim.${key}`]),
          middle(of, ({ burdened }) => burdened.p95Ms),
          middle(of, ({ burdened }) => burdened.readingMsPerSecond),
          middle(of, ({ healthy }) => healthy.readingMsPerSecond),
          middle(of, ({ burdened }) => burdened.deliveryMs),
          middle(of, ({ healthy }) => healthy.deliveryMs),
          middle(of, ({ burdened }) => burdened.firstMs),
          Math.max(...of.map(({ burdened }) => burdened.missing)),
        ]),
      },
    ],
  }
}

function valueOf(value: Figure | undefined): number | null {
  return typeof value === 'number' ? value : null
}
