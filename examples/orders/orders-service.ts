import type { Pool, PoolClient } from 'pg'
import { z } from 'zod'
import { pg } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { inTransaction } from '../support/transaction.ts'

export const ordersTables = `
  CREATE TABLE customers (
    id text PRIMARY KEY, spent numeric(20,2) NOT NULL DEFAULT 0, version int NOT NULL DEFAULT 0);
  CREATE TABLE orders (
    id text PRIMARY KEY, customer_id text NOT NULL REFERENCES customers, total numeric(20,2) NOT NULL,
    note text NOT NULL, status text NOT NULL DEFAULT 'new', version int NOT NULL DEFAULT 1,
    basket text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED);`

const total = z.string().regex(/^\d+\.\d\d$/)

const outbox = createOutbox({
  client: pg(),
  events: {
    'order.created': z.object({ order_id: z.string(), customer_id: z.string(), total, note: z.string() }),
    'order.paid': z.object({ order_id: z.string(), total }),
    'order.shipped': z.object({ order_id: z.string() }),
    'customer.spent': z.object({ customer_id: z.string(), amount: total }),
  },
})

export interface NewOrder {
  id: string
  customerId: string
  total: string
  note: string
  /** What the customer pressed "buy" on. It can be bought once: a double click fails when it commits. */
  basket: string
}

/** An event that was committed, and the version that its aggregate has since. */
export interface Committed {
  id: string
  aggregate: string
  version: number
}

/** Each method writes its rows and its events in one transaction: both exist, or neither. */
export function createOrdersService(pool: Pool) {
  async function place({ id, customerId, total, note, basket }: NewOrder): Promise<Committed[]> {
    return inTransaction(pool, async (tx) => {
      await tx.query('INSERT INTO customers (id) VALUES ($1) ON CONFLICT DO NOTHING', [customerId])
      await tx.query(
        'INSERT INTO orders (id, customer_id, total, note, basket) VALUES ($1, $2, $3, $4, $5)',
        [id, customerId, total, note, basket],
      )
      const event = await outbox.publish(tx, {
        type: 'order.created',
        aggregate: ['order', id],
        payload: { order_id: id, customer_id: customerId, total, note },
      })
      return [{ id: event.id, aggregate: `order ${id}`, version: 1 }]
    })
  }

  /** As `place`, by a program that knows nothing but SQL. One statement is a transaction. */
  async function placeBySql({ id, customerId, total, note, basket }: NewOrder): Promise<Committed[]> {
    await pool.query('INSERT INTO customers (id) VALUES ($1) ON CONFLICT DO NOTHING', [customerId])
    const { rows } = await pool.query<{ id: string }>(
      `WITH placed AS (
         INSERT INTO orders (id, customer_id, total, note, basket) VALUES ($1, $2, $3, $4, $5) RETURNING *
       )
       INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload)
       SELECT 'order', id, 'order.created', jsonb_build_object('order_id', id, 'customer_id', customer_id,
              'total', total, 'note', note, 'barcode', 9007199254740993)
       FROM placed RETURNING id`,
      [id, customerId, total, note, basket],
    )
    return rows.map((event) => ({ id: event.id, aggregate: `order ${id}`, version: 1 }))
  }

  async function pay(orderId: string): Promise<Committed[]> {
    return inTransaction(pool, async (tx) => {
      const order = await update(
        tx,
        `UPDATE orders SET status = 'paid', version = version + 1 WHERE id = $1 AND status = 'new'
         RETURNING customer_id, total::text, version`,
        [orderId],
      )
      // The lock on this row puts the events of a customer in order, whoever writes them.
      const customer = await update(
        tx,
        `UPDATE customers SET spent = spent + $2::numeric, version = version + 1 WHERE id = $1 RETURNING version`,
        [order['customer_id'], order['total']],
      )
      const customerId = String(order['customer_id'])
      const amount = String(order['total'])
      const [paid, spent] = await outbox.publish(tx, [
        { type: 'order.paid', aggregate: ['order', orderId], payload: { order_id: orderId, total: amount } },
        {
          type: 'customer.spent',
          aggregate: ['customer', customerId],
          payload: { customer_id: customerId, amount },
        },
      ])
      return [
        { id: paid!.id, aggregate: `order ${orderId}`, version: Number(order['version']) },
        { id: spent!.id, aggregate: `customer ${customerId}`, version: Number(customer['version']) },
      ]
    })
  }

  async function ship(orderId: string): Promise<Committed[]> {
    return inTransaction(pool, async (tx) => {
      const order = await update(
        tx,
        `UPDATE orders SET status = 'shipped', version = version + 1 WHERE id = $1 AND status = 'paid'
         RETURNING version`,
        [orderId],
      )
      const event = await outbox.publish(tx, {
        type: 'order.shipped',
        aggregate: ['order', orderId],
        payload: { order_id: orderId },
      })
      return [{ id: event.id, aggregate: `order ${orderId}`, version: Number(order['version']) }]
    })
  }

  return { place, placeBySql, pay, ship }
}

export type OrdersService = ReturnType<typeof createOrdersService>

async function update(tx: PoolClient, sql: string, values: unknown[]): Promise<Record<string, unknown>> {
  const { rows } = await tx.query<Record<string, unknown>>(sql, values)
  if (rows[0] === undefined) throw new Error('the order is not in a state that allows this')
  return rows[0]
}
