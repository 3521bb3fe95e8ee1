import pg from 'pg'
import { eventPayload, insertEvent, insertOrder } from '../transaction.ts'
import type { ClientsJob, ClientsResult } from './job.ts'

/** Where there is no pgbench: the same transactions from one Node.js process, with prepared statements. */
export async function runClients(job: ClientsJob): Promise<ClientsResult> {
  const clients = await Promise.all(
    Array.from({ length: job.clients }, async () => {
      const client = new pg.Client({ connectionString: job.url })
      await client.connect()
      return client
    }),
  )
  const event = insertEvent('$1::text', '$2::text')
  const order = insertOrder('$1::text')
  const startedAt = performance.now()
  const until = startedAt + job.seconds * 1000
  let transactions = 0

  async function work(client: pg.Client): Promise<void> {
    while (performance.now() < until) {
      const id = `o-${Math.ceil(Math.random() * 100_000)}`
      await client.query('BEGIN')
      await client.query({ name: 'order', text: order, values: [id] })
      await client.query({ name: 'event', text: event, values: [id, eventPayload] })
      await client.query('COMMIT')
      transactions++
    }
  }

  await Promise.all(clients.map(work))
  const seconds = (performance.now() - startedAt) / 1000
  await Promise.all(clients.map((client) => client.end()))
  return { transactionsPerSecond: transactions / seconds }
}
