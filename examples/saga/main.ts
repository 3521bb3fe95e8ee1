import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { handlerPublisher } from '../../src/brokers/handler.ts'
import { createConsumer, inProcessSource } from '../../src/consumer/index.ts'
import { createRelay } from '../../src/relay/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { createDatabase, openPool } from '../support/databases.ts'
import { onPaymentEvents, orderEvents, ordersTables, placeOrder } from './orders.ts'
import { onOrderEvents, paymentTables } from './payments.ts'

// Two services with a database each, in one process to be read from top to bottom. Between them: two outboxes, two
// relays, two consumers. In life each service has its own process, and a broker lies between.
const postgres = await startPostgres()
const ordersUrl = await createDatabase(postgres.url, 'orders', ordersTables)
const paymentsUrl = await createDatabase(postgres.url, 'payments', paymentTables)
await migrate({ databaseUrl: ordersUrl })
await migrate({ databaseUrl: paymentsUrl })
const orders = openPool(ordersUrl)
const payments = openPool(paymentsUrl)
await payments.query(`INSERT INTO accounts VALUES ('rich', 1000), ('poor', 10)`)
await orders.query(`INSERT INTO stock VALUES ('lamp', 2), ('chair', 5)`)

const toPayments = inProcessSource({ name: 'to payments' })
const toOrders = inProcessSource({ name: 'to orders' })
const parts = [
  createConsumer({
    ...{ name: 'payments', database: payments, source: toPayments },
    ...{ events: orderEvents, handlers: onOrderEvents },
  }),
  createConsumer({ name: 'orders', database: orders, source: toOrders, handlers: onPaymentEvents }),
  createRelay({ databaseUrl: ordersUrl, destinations: { payments: handlerPublisher(toPayments.handle) } }),
  createRelay({ databaseUrl: paymentsUrl, destinations: { orders: handlerPublisher(toOrders.handle) } }),
]
for (const part of parts) await part.start()

const wanted = [
  { id: 'order-1', account: 'rich', amount: 40, item: 'lamp' },
  { id: 'order-2', account: 'rich', amount: 40, item: 'lamp' },
  { id: 'order-3', account: 'poor', amount: 40, item: 'chair' },
  { id: 'order-4', account: 'rich', amount: 60, item: 'chair' },
]
for (const order of wanted) await placeOrder(orders, order)
await settled()
await placeOrder(orders, { id: 'order-5', account: 'rich', amount: 40, item: 'lamp' })
await settled()

await print(orders, 'SELECT id, status FROM orders ORDER BY id')
await print(payments, `SELECT name AS id, 'has ' || balance AS status FROM accounts ORDER BY name`)
await print(payments, `SELECT 'reserved' AS id, sum(amount)::text AS status FROM reservations`)
for (const part of parts.reverse()) await part.stop()
await Promise.all([orders.end(), payments.end()])
await postgres.stop()

/** No order waits for an answer, and no event for a relay. */
async function settled(): Promise<void> {
  const isBusy = async (pool: Pool) =>
    (await pool.query('SELECT FROM waybill.outbox_events WHERE processed_at IS NULL LIMIT 1')).rowCount! > 0
  while (
    (await isBusy(orders)) ||
    (await isBusy(payments)) ||
    (await orders.query(`SELECT FROM orders WHERE status = 'placed' LIMIT 1`)).rowCount! > 0
  )
    await delay(50)
}

async function print(pool: Pool, sql: string): Promise<void> {
  const { rows } = await pool.query<{ id: string; status: string }>(sql)
  for (const { id, status } of rows) console.log(`${id.padEnd(10)}${status}`)
}
