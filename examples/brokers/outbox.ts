import { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { pg } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { type Publisher, createRelay } from '../../src/relay/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { inTransaction } from '../support/transaction.ts'

/** The events of one order, in the order in which a consumer must see them. */
export const eventTypes = ['order.placed', 'order.paid', 'order.shipped'] as const

/**
 * An outbox at work while `consume` runs: a PostgreSQL in a temporary folder, the events of one order, and a relay
 * that brings them to the publisher. Everything is ended afterwards.
 */
export async function withOutbox(publisher: Publisher, consume: () => Promise<void>): Promise<void> {
  const postgres = await startPostgres()
  try {
    await migrate({ databaseUrl: postgres.url })
    await placeOrder(postgres.url)
    const relay = createRelay({ databaseUrl: postgres.url, destinations: { bus: publisher } })
    await relay.start()
    await consume()
    await relay.stop()
  } finally {
    await publisher.close()
    await postgres.stop()
  }
}

async function placeOrder(databaseUrl: string): Promise<void> {
  const pool = new Pool({ connectionString: databaseUrl })
  const outbox = createOutbox({ client: pg() })
  await inTransaction(pool, async (tx) => {
    for (const type of eventTypes) {
      await outbox.publish(tx, { type, aggregate: ['order', 'o-1'], payload: { order: 'o-1', total: 12.5 } })
    }
  })
  await pool.end()
}
