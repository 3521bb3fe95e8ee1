import type { Pool } from 'pg'
import { z } from 'zod'
import { pg } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { inTransaction } from '../support/transaction.ts'

export const accountsTable = `
  CREATE TABLE accounts (id text PRIMARY KEY, balance numeric(20,2) NOT NULL);`

const outbox = createOutbox({
  client: pg(),
  events: { 'account.deposited': z.object({ account: z.string(), amount: z.string() }) },
})

/** The row and its event: both are there, or neither is. */
export async function deposit(pool: Pool, account: string, amount: number): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await tx.query(
      `INSERT INTO accounts AS a VALUES ($1, $2)
       ON CONFLICT (id) DO UPDATE SET balance = a.balance + excluded.balance`,
      [account, amount],
    )
    await outbox.publish(tx, {
      type: 'account.deposited',
      aggregate: ['account', account],
      payload: { account, amount: amount.toFixed(2) },
    })
  })
}
