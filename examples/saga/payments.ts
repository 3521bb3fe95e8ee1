import type { PoolClient } from 'pg'
import { z } from 'zod'
import { pg } from '../../src/clients/pg.ts'
import type { Handlers } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import type { orderEvents } from './orders.ts'

export const paymentTables = `
  CREATE TABLE accounts (name text PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0));
  CREATE TABLE reservations (order_id text PRIMARY KEY, account text NOT NULL, amount int NOT NULL);`

const outbox = createOutbox({
  client: pg(),
  events: {
    'payment.reserved': z.object({ id: z.string() }),
    'payment.refused': z.object({ id: z.string() }),
  },
})

/**
 * A saga's participant: it takes an event, changes its own state and tells what it did, all in the transaction in
 * which the event is marked as handled. So each step is done once, and is never done without being told.
 */
export const onOrderEvents: Handlers<PoolClient, typeof orderEvents> = {
  'order.placed': async ({ event, tx }) => {
    const { id, account, amount } = event.payload
    const paid = await tx.query(
      'UPDATE accounts SET balance = balance - $2 WHERE name = $1 AND balance >= $2',
      [account, amount],
    )
    if (paid.rowCount === 1) {
      await tx.query('INSERT INTO reservations VALUES ($1, $2, $3)', [id, account, amount])
    }
    const type = paid.rowCount === 1 ? 'payment.reserved' : 'payment.refused'
    await outbox.publish(tx, { type, aggregate: ['order', id], payload: { id } })
  },
  // The compensation. There may be nothing to undo, and then nothing is undone.
  'order.cancelled': async ({ event, tx }) => {
    await tx.query(
      `WITH undone AS (DELETE FROM reservations WHERE order_id = $1 RETURNING account, amount)
       UPDATE accounts AS a SET balance = a.balance + u.amount FROM undone AS u WHERE a.name = u.account`,
      [event.payload.id],
    )
  },
}
