import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { pg } from '../../src/clients/pg.ts'
import { type Source, createConsumer } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import { type Publisher, createRelay } from '../../src/relay/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { inTransaction } from '../support/transaction.ts'

/** The events of one order, in the order in which a consumer must see them. */
const eventTypes = ['order.placed', 'order.paid', 'order.shipped'] as const

/**
 * A service writes the events of an order, a relay brings them to the publisher, and a consumer takes each from the
 * source once and keeps it. Prints what it kept. The PostgreSQL is in a temporary folder, and gone afterwards.
 */
export async function deliverOrder(bus: {
  publisher: Publisher
  topic: string
  source: Source
}): Promise<void> {
  const { publisher, topic, source } = bus
  const postgres = await startPostgres()
  const pool = new Pool({ connectionString: postgres.url })
  try {
    await migrate({ databaseUrl: postgres.url })
    await pool.query('CREATE TABLE seen (position int GENERATED ALWAYS AS IDENTITY, type text, payload text)')
    await placeOrder(pool)

    const relay = createRelay({
      databaseUrl: postgres.url,
      destinations: { bus: publisher },
      routes: [{ to: 'bus', topic }],
    })
    const consumer = createConsumer({
      name: 'search',
      database: pool,
      source,
      handlers: {
        // Commits together with the note that this event was handled: when it comes again, nothing runs.
        '*': async ({ event, tx }) => {
          await tx.query('INSERT INTO seen (type, payload) VALUES ($1, $2)', [event.type, event.body])
        },
      },
    })
    await Promise.all([relay.start(), consumer.start()])
    for (const { type, payload } of await everythingSeen(pool)) console.log(type, payload)
    await Promise.all([relay.stop(), consumer.stop()])
  } finally {
    await publisher.close()
    await pool.end()
    await postgres.stop()
  }
}

async function placeOrder(pool: Pool): Promise<void> {
  const outbox = createOutbox({ client: pg() })
  await inTransaction(pool, async (tx) => {
    for (const type of eventTypes) {
      await outbox.publish(tx, { type, aggregate: ['order', 'o-1'], payload: { order: 'o-1', total: 12.5 } })
    }
  })
}

async function everythingSeen(pool: Pool): Promise<{ type: string; payload: string }[]> {
  for (;;) {
    const { rows } = await pool.query('SELECT type, payload FROM seen ORDER BY position')
    if (rows.length >= eventTypes.length) return rows
    await delay(50)
  }
}
