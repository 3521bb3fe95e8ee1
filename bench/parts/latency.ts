import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../src/schema/migrator.ts'
import type { RelayReport } from '../child/job.ts'
import { type Context, type Figure, type Part, figure } from '../part.ts'
import { startRelay } from '../relays.ts'
import { startBenchServer } from '../server.ts'
import { percentile, rounded } from '../statistics.ts'
import { delays, trickle } from '../trickle.ts'

const warmUpSeconds = 2
/** The last events must have arrived after so long. */
const lateMs = 2_000

const ways = {
  notify: { wakeup: 'auto', title: 'NOTIFY (default)' },
  poll: { wakeup: 'poll', title: 'polling' },
} as const

const percentiles = [50, 99] as const

export const latencyPart: Part = {
  name: 'latency',
  owes: Object.keys(ways).flatMap((way) => percentiles.map((percent) => `latency_ms.${way}.p${percent}`)),
  async run(context) {
    const measured: [way: keyof typeof ways, delays: number[]][] = []
    for (const way of Object.keys(ways) as (keyof typeof ways)[]) {
      measured.push([way, await measure(context, ways[way].wakeup)])
    }
    const figures: Record<string, Figure> = {}
    for (const [way, values] of measured) {
      for (const percent of percentiles) {
        figures[`latency_ms.${way}.p${percent}`] = figure(percentile(values, percent), 'not measured')
      }
    }
    const { perSecond, seconds } = context.scale.latency
    return {
      figures,
      sections: [
        {
          title: 'Latency',
          notes: [
            `Milliseconds from the answer to the writer's commit to the call of the publisher, at ${perSecond} events a second for ${seconds} s. Below 0: the publisher was called before the writer had its answer.`,
          ],
          head: ['wake-up', 'p50', 'p90', 'p99', 'largest'],
          rows: measured.map(([way, values]) => [
            ways[way].title,
            ...[50, 90, 99, 100].map((percent) => rounded(percentile(values, percent))),
          ]),
        },
      ],
    }
  },
}

async function measure({ scale, children, log }: Context, wakeup: 'auto' | 'poll'): Promise<number[]> {
  const { perSecond, seconds } = scale.latency
  log(`latency: ${perSecond} events a second for ${seconds} s, wake-up ${wakeup}`)
  const server = await startBenchServer()
  try {
    const database = await server.createDatabase('bench')
    await migrate({ databaseUrl: database.url, wakeup })
    const relay = startRelay(
      children,
      { url: database.url, wakeup, record: 'order' },
      { seconds: warmUpSeconds + seconds },
    )
    try {
      await relay.warm()
      const options = {
        client: database.client,
        transactionsPerSecond: perSecond,
        eventsPerTransaction: 1,
        aggregateType: 'order',
        aggregates: 1000,
      }
      await trickle({ ...options, seconds: warmUpSeconds })
      await sleep(lateMs)
      await relay.ask('report')
      const commits = await trickle({ ...options, seconds })
      await sleep(lateMs)
      const { arrived, missing } = delays(commits, (await relay.ask<RelayReport>('report')).calls)
      if (missing > 0)
        throw new Error(`${missing} events had not arrived ${lateMs} ms after the last of them`)
      return arrived
    } finally {
      await relay.stop()
    }
  } finally {
    await server.stop()
  }
}
