import { Kafka, logLevel } from 'kafkajs'
import type { Pool } from 'pg'
import { kafkaSource } from '../../src/brokers/kafka.ts'
import { type Consumer, createConsumer } from '../../src/consumer/index.ts'

export const balanceTable = `
  CREATE TABLE balances (account text PRIMARY KEY, balance numeric(20,2) NOT NULL, deposits int NOT NULL);`

/** Gets each event at least once, and counts it exactly once: the inbox row and the balance commit together. */
export function consumeDeposits(options: { brokers: string[]; topic: string; pool: Pool }): Consumer {
  const { brokers, topic, pool } = options
  return createConsumer({
    name: 'balances',
    database: pool,
    source: kafkaSource({ brokers, group: topic, topics: [topic] }),
    handlers: {
      'account.deposited': async ({ event, tx }) => {
        // Money stays text: PostgreSQL reads it out of the payload as it was written.
        await tx.query(
          `INSERT INTO balances AS b
           SELECT event ->> 'account', (event ->> 'amount')::numeric, 1 FROM CAST($1::text AS jsonb) AS event
           ON CONFLICT (account) DO UPDATE SET balance = b.balance + excluded.balance, deposits = b.deposits + 1`,
          [JSON.stringify(event.payload)],
        )
      },
    },
  })
}

/** As the owner of the topic would. */
export async function makeTopic(brokers: string[], topic: string): Promise<void> {
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3 }], waitForLeaders: true })
  await admin.disconnect()
}
