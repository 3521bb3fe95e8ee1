import type { Pool, PoolClient } from 'pg'
import { z } from 'zod'
import { pg } from '../../src/clients/pg.ts'
import type { Handlers } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import { inTransaction } from '../support/transaction.ts'

export const ordersTables = `
  CREATE TABLE orders (id text PRIMARY KEY, account text NOT NULL, amount int NOT NULL, item text NOT NULL,
    status text NOT NULL DEFAULT 'placed');
  CREATE TABLE stock (item text PRIMARY KEY, left_over int NOT NULL CHECK (left_over >= 0));`

/** What the order service tells. */
export const orderEvents = {
  'order.placed': z.object({ id: z.string(), account: z.string(), amount: z.number() }),
  'order.cancelled': z.object({ id: z.string(), reason: z.string() }),
}

const outbox = createOutbox({ client: pg(), events: orderEvents })

export interface Order {
  id: string
  account: string
  amount: number
  item: string
}

/** The saga begins: the order and its event in one transaction. */
export async function placeOrder(pool: Pool, { id, account, amount, item }: Order): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await tx.query('INSERT INTO orders (id, account, amount, item) VALUES ($1, $2, $3, $4)', [
      ...[id, account, amount, item],
    ])
    await outbox.publish(tx, {
      ...{ type: 'order.placed', aggregate: ['order', id], payload: { id, account, amount } },
    })
  })
}

/** What the answers of the other participant change here. Each handler runs in one transaction with its inbox row. */
export const onPaymentEvents: Handlers<PoolClient> = {
  'payment.reserved': async ({ event, tx }) => {
    const { aggregateId: id } = event
    const taken = await tx.query(
      `UPDATE stock AS s SET left_over = left_over - 1 FROM orders AS o
       WHERE o.id = $1 AND s.item = o.item AND s.left_over > 0`,
      [id],
    )
    if (taken.rowCount === 1) {
      await tx.query(`UPDATE orders SET status = 'confirmed' WHERE id = $1`, [id])
      return
    }
    // The step that came before must be undone: its owner is told, in the same transaction.
    await tx.query(`UPDATE orders SET status = 'cancelled: sold out' WHERE id = $1`, [id])
    await outbox.publish(tx, {
      ...{ type: 'order.cancelled', aggregate: ['order', id], payload: { id, reason: 'sold out' } },
    })
  },
  'payment.refused': async ({ event, tx }) => {
    await tx.query(`UPDATE orders SET status = 'cancelled: no money' WHERE id = $1`, [event.aggregateId])
  },
}
