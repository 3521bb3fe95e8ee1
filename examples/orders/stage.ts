import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { migrate } from '../../src/schema/index.ts'
import { type OrdersService, createOrdersService, ordersTables } from './orders-service.ts'
import { type Receiver, type ReceiverOptions, billingTables, createReceiver } from './receiver.ts'
import { createDatabase, openPool } from '../support/databases.ts'
import { freePort } from '../support/ports.ts'
import { type RelayProcess, type RelayProcessOptions, startRelay } from '../support/relay-process.ts'

/** Everything that plays a part, running. */
export interface Stage {
  readonly databaseUrl: string
  /** Of the orders service, with the outbox in it. */
  readonly orders: Pool
  /** Of the receiver: another service, another database. */
  readonly billing: Pool
  readonly service: OrdersService
  readonly receiver: Receiver
  readonly relay: RelayProcess
  /** Ends all of it, in reverse order. Idempotent. */
  close(): Promise<void>
}

export interface StageOptions {
  print: (line: string) => void
  onHandled: NonNullable<ReceiverOptions['onHandled']>
  onLog?: RelayProcessOptions['onLog']
  onDeath?: RelayProcessOptions['onDeath']
}

export async function setStage({ print, onHandled, onLog, onDeath }: StageOptions): Promise<Stage> {
  const endings: (() => Promise<unknown>)[] = []
  let closing: Promise<void> | undefined
  const close = () => (closing ??= endAll(endings))
  try {
    const postgres = await startPostgres()
    endings.push(() => postgres.stop())
    print(`PostgreSQL ${postgres.major} runs on port ${postgres.port}, in a temporary folder`)

    const ordersUrl = await createDatabase(postgres.url, 'orders', ordersTables)
    const billingUrl = await createDatabase(postgres.url, 'billing', billingTables)
    await migrate({ databaseUrl: ordersUrl })
    const orders = openPool(ordersUrl)
    const billing = openPool(billingUrl)
    endings.push(() => Promise.all([orders.end(), billing.end()]))

    const secret = `whsec_${randomBytes(24).toString('base64')}`
    const receiver = createReceiver({ pool: billing, port: await freePort(), secret, onHandled })
    await receiver.open()
    endings.push(() => receiver.close())
    print(`the receiver listens on ${receiver.url}`)

    const relay = await startRelay({
      configuration: fileURLToPath(new URL('waybill.config.json', import.meta.url)),
      env: { DATABASE_URL: ordersUrl, BILLING_URL: receiver.url, BILLING_SECRET: secret },
      ...(onLog === undefined ? {} : { onLog }),
      ...(onDeath === undefined ? {} : { onDeath }),
    })
    endings.push(() => relay.stop())
    print(`the relay runs as process ${relay.pid}`)

    const service = createOrdersService(orders)
    return { databaseUrl: ordersUrl, orders, billing, service, receiver, relay, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function endAll(endings: (() => Promise<unknown>)[]): Promise<void> {
  for (const end of endings.reverse()) await end()
}
