import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../src/schema/migrator.ts'
import type { RelayReport } from '../child/job.ts'
import { buildCommand, startRelayCommand } from '../command.ts'
import { insertMany } from '../many.ts'
import { type Context, type Part, figure, thousands } from '../part.ts'
import { startRelay } from '../relays.ts'
import { type BenchDatabase, startBenchServer } from '../server.ts'
import { rounded } from '../statistics.ts'
import { startWebhook } from '../webhook.ts'

const headline = 'memory_mb.million_pending'
const publishers = [
  { title: 'embedded, a publisher of 100 ms a call', publisherMs: 100 },
  { title: 'embedded, a publisher that does nothing', publisherMs: 0 },
] as const

export const memoryPart: Part = {
  name: 'memory',
  owes: [headline],
  async run(context) {
    const { pending, seconds } = context.scale.memory
    buildCommand()
    const server = await startBenchServer()
    try {
      const database = await server.createDatabase('bench')
      await migrate({ databaseUrl: database.url })
      context.log(`memory: writing ${thousands(pending)} events`)
      await insertMany(database, { rows: pending, aggregates: Math.ceil(pending / 40) })
      await database.query('VACUUM ANALYZE waybill.outbox_events')
      const measured = []
      for (const { title, publisherMs } of publishers) {
        context.log(`memory: ${title}`)
        measured.push({ title, ...(await measure(context, database, publisherMs)) })
      }
      context.log('memory: the command, to a webhook')
      const command = await measureCommand(context, database)
      measured.push({ title: '`waybill relay`, to a webhook', ...command })
      return {
        figures: {
          [headline]: figure(command.peakRssMb ?? Number.NaN, '/proc does not tell the size of a process'),
        },
        sections: [
          {
            title: 'Memory',
            notes: [
              `Largest resident set of a relay's process that finds ${thousands(pending)} pending events of about 300 bytes, over ${seconds} s. The figure is that of the command. Of the others some 25 MB are in use: V8 lets four times as much come together before it collects the garbage, unless it is told otherwise, as the command tells it (\`--heap-growing-percent=100\`).`,
            ],
            head: ['relay', 'MB', 'published meanwhile'],
            rows: measured.map(({ title, peakRssMb, published }) => [
              title,
              rounded(peakRssMb),
              thousands(published),
            ]),
          },
        ],
      }
    } finally {
      await server.stop()
    }
  },
}

async function measure(
  { scale, children }: Context,
  { url }: BenchDatabase,
  publisherMs: number,
): Promise<{ peakRssMb: number; published: number }> {
  const { seconds } = scale.memory
  const relay = startRelay(children, { url, publisherMs }, { seconds })
  try {
    await relay.warm()
    await sleep(seconds * 1000)
    const { peakRssMb, published } = await relay.ask<RelayReport>('report')
    return { peakRssMb, published }
  } finally {
    await relay.stop()
  }
}

/** With everything that the command adds to a relay: HTTP server, counting, retention, metrics, log. */
async function measureCommand(
  { scale }: Context,
  { url }: BenchDatabase,
): Promise<{ peakRssMb: number | null; published: number }> {
  const webhook = await startWebhook()
  try {
    const relay = await startRelayCommand(url, webhook.url)
    try {
      await sleep(scale.memory.seconds * 1000)
      return { peakRssMb: relay.peakRssMb(), published: webhook.received }
    } finally {
      await relay.stop()
    }
  } finally {
    await webhook.close()
  }
}
