import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { kafkaPublisher } from '../../src/brokers/kafka.ts'
import { createRelay } from '../../src/relay/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { balanceTable, consumeDeposits, makeTopic } from './consumer.ts'
import { accountsTable, deposit } from './service.ts'

// A service that writes, a relay, Kafka, and a consumer in one process, to be read from top to bottom.
const brokers = [process.env['KAFKA_BROKER'] ?? '127.0.0.1:9092']
// Of this run: Kafka keeps what earlier runs have written.
const topic = `example.accounts.${Date.now()}`
const accounts = ['savings', 'salary', 'travel']
const rounds = 10

const postgres = await startPostgres()
await migrate({ databaseUrl: postgres.url })
const pool = new Pool({ connectionString: postgres.url })
await pool.query(accountsTable + balanceTable)

await makeTopic(brokers, topic)
const consumer = consumeDeposits({ brokers, topic, pool })
await consumer.start()
const relay = createRelay({
  databaseUrl: postgres.url,
  destinations: { log: await kafkaPublisher({ brokers }) },
  routes: [{ to: 'log', topic }],
})
await relay.start()

for (let round = 1; round <= rounds; round++) {
  await Promise.all(accounts.map((account) => deposit(pool, account, round)))
}
const counted = async () =>
  (await pool.query<{ n: number }>('SELECT coalesce(sum(deposits), 0)::int AS n FROM balances')).rows[0]!.n
while ((await counted()) < rounds * accounts.length) await delay(50)

const { rows } = await pool.query<Record<string, string>>('SELECT * FROM balances ORDER BY account')
for (const { account, balance, deposits } of rows) {
  console.log(`${account} has ${balance} after ${deposits} deposits`)
}
await consumer.stop()
await relay.stop()
await pool.end()
await postgres.stop()
