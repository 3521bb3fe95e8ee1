import type { IncomingMessage } from 'node:http'
import type { Pool, PoolClient } from 'pg'
import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import { createListener, readBody } from '../support/listener.ts'
import { inTransaction } from '../support/transaction.ts'

export const billingTables = `
  CREATE TABLE handled_events (event_id uuid PRIMARY KEY, handled_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE invoices (
    order_id text PRIMARY KEY, customer_id text NOT NULL, total numeric(20,2) NOT NULL, status text NOT NULL);
  CREATE TABLE accounts (customer_id text PRIMARY KEY, spent numeric(20,2) NOT NULL);`

/** What each event changes. The body goes to PostgreSQL as text: no number passes through JavaScript. */
const effects: Record<string, (tx: PoolClient, body: string) => Promise<void>> = {
  'order.created': (tx, body) =>
    change(
      tx,
      body,
      `INSERT INTO invoices (order_id, customer_id, total, status)
       SELECT event ->> 'order_id', event ->> 'customer_id', (event ->> 'total')::numeric, 'open'
       FROM CAST($1::text AS jsonb) AS event`,
    ),
  'order.paid': (tx, body) => setStatus(tx, body, 'open', 'paid'),
  'order.shipped': (tx, body) => setStatus(tx, body, 'paid', 'closed'),
  'customer.spent': (tx, body) =>
    change(
      tx,
      body,
      `INSERT INTO accounts AS a (customer_id, spent)
       SELECT event ->> 'customer_id', (event ->> 'amount')::numeric FROM CAST($1::text AS jsonb) AS event
       ON CONFLICT (customer_id) DO UPDATE SET spent = a.spent + excluded.spent`,
    ),
}

function setStatus(tx: PoolClient, body: string, from: string, to: string): Promise<void> {
  return change(
    tx,
    body,
    `UPDATE invoices SET status = '${to}'
     WHERE order_id = CAST($1::text AS jsonb) ->> 'order_id' AND status = '${from}'`,
  )
}

async function change(tx: PoolClient, body: string, sql: string): Promise<void> {
  const { rowCount } = await tx.query(sql, [body])
  if (rowCount !== 1) throw new Error('there is no invoice in the state that this event needs')
}

/** One delivery that was handled. */
export interface Receipt {
  id: string
  body: string
  /** The event had been handled before, so nothing was done. */
  duplicate: boolean
}

export interface ReceiverOptions {
  pool: Pool
  port: number
  /** Signs the requests, as in waybill.config.json. */
  secret: string
  /** Called after the commit and before the answer. */
  onHandled?: (receipt: Receipt) => void | Promise<void>
}

/** The billing service: it gets each event at least once and acts on it exactly once. */
export function createReceiver({ pool, port, secret, onHandled }: ReceiverOptions) {
  const webhook = new Webhook(secret)
  const listener = createListener(port, (request, response) => {
    handle(request).then(
      () => response.writeHead(204).end(),
      (error: unknown) => {
        const status = error instanceof WebhookVerificationError ? 401 : 500
        response.writeHead(status).end(error instanceof Error ? error.message : 'it failed')
      },
    )
  })

  async function handle(request: IncomingMessage): Promise<void> {
    const body = (await readBody(request)).toString('utf8')
    webhook.verify(body, request.headers as Record<string, string>, { jsonParse: false })
    // Signed, unlike the other headers. A deliberate replay of an event has ".r1" after the event's id.
    const id = String(request.headers['webhook-id']).replace(/\.r\d+$/, '')
    const type = String(request.headers['x-waybill-event-type'])
    const duplicate = await inTransaction(pool, async (tx) => {
      // In one transaction with the effect: either both are there, or the next delivery does it all.
      const seen = await tx.query(
        'INSERT INTO handled_events (event_id) VALUES ($1) ON CONFLICT DO NOTHING',
        [id],
      )
      if (seen.rowCount === 0) return true
      await effects[type]?.(tx, body)
      return false
    })
    await onHandled?.({ id, body, duplicate })
  }

  return {
    url: `http://127.0.0.1:${port}/events`,
    get isOpen() {
      return listener.isOpen
    },
    open: listener.open,
    close: listener.close,
  }
}

export type Receiver = ReturnType<typeof createReceiver>
