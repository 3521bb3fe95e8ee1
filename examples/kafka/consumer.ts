import { Kafka, logLevel } from 'kafkajs'
import type { Pool } from 'pg'
import { inTransaction } from '../support/transaction.ts'

export const balanceTables = `
  CREATE TABLE handled_events (event_id uuid PRIMARY KEY);
  CREATE TABLE balances (account text PRIMARY KEY, balance numeric(20,2) NOT NULL, deposits int NOT NULL);`

export interface Deposits {
  /** Resolves when so many events were handled. */
  until(count: number): Promise<void>
  stop(): Promise<void>
}

/** Gets each event at least once, and counts it exactly once. Makes the topic, as its owner would. */
export async function consumeDeposits(options: {
  brokers: string[]
  topic: string
  pool: Pool
}): Promise<Deposits> {
  const { brokers, topic, pool } = options
  const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3 }], waitForLeaders: true })
  await admin.disconnect()

  let handled = 0
  let onHandled = () => {}
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    // When it throws, KafkaJS calls it again. The offset is committed after it has returned.
    eachMessage: async ({ message }) => {
      await handle(pool, String(message.headers?.['id']), String(message.value))
      handled++
      onHandled()
    },
  })
  return {
    async until(count) {
      while (handled < count) await new Promise<void>((resolve) => (onHandled = resolve))
    },
    stop: () => consumer.disconnect(),
  }
}

/** The id of the event and what it changes in one transaction: a repetition changes nothing. */
async function handle(pool: Pool, eventId: string, body: string): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const seen = await tx.query('INSERT INTO handled_events VALUES ($1) ON CONFLICT DO NOTHING', [eventId])
    if (seen.rowCount === 0) return
    await tx.query(
      `INSERT INTO balances AS b
       SELECT event ->> 'account', (event ->> 'amount')::numeric, 1 FROM CAST($1::text AS jsonb) AS event
       ON CONFLICT (account) DO UPDATE SET balance = b.balance + excluded.balance, deposits = b.deposits + 1`,
      [body],
    )
  })
}
