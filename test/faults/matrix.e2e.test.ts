import { describe, expect, test } from 'vitest'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/services.ts'
import { expectWhole } from './kit.ts'
import { type FaultBroker, faultBrokers } from './fixtures/brokers.ts'
import { applications } from './fixtures/applications.ts'
import { startStage } from './fixtures/stage.ts'

const events = 2_000
const aggregates = 50

/** Relay and consumer are killed twice each and the broker once, all of them in the middle of their work. */
async function surviveKills(broker: FaultBroker) {
  const [from, to] = [await createTestDatabase(), await createTestDatabase()]
  const ledger = await createLedger(from)
  const applied = await applications(to)
  const stage = await startStage({ from, to, route: await broker.route('ledger') })
  // Some are always on their way when a process dies, and the end does not come before the last fault.
  const writers = ledger.startWriters({
    aggregates,
    ready: () => applied.until((count) => writers.committed - count < 300),
  })

  await applied.more(150)
  await stage.killRelay()
  await applied.more(200)
  await stage.killConsumer()
  await applied.more(200)
  const downAt = Date.now()
  await broker.down()
  await stage.relays.at(-1)!.until('destination.down', ({ time }) => Date.parse(time) >= downAt)
  await broker.up()
  await applied.more(200)
  await stage.killConsumer()
  await applied.more(200)
  await stage.killRelay()
  await writers.untilCommitted(events)
  await writers.stop()
  // In the queue of each aggregate, behind all that comes twice.
  await ledger.write(aggregates, { aggregates })
  const { written } = await ledger.verdict()
  await applied.until((count) => count >= written)
  await stage.stop()

  await applied.tell(ledger)
  await expectWhole(ledger, from)
  await applied.expectClean(written)
  return { written, absorbed: stage.absorbed() }
}

for (const { name, service, start } of faultBrokers) {
  const describeIt = service === undefined ? describe : describeWith.bind(undefined, service)
  describeIt(`events through ${name}`, () => {
    test('take effect once each and in order, with relay and consumer killed twice and the broker away once', async () => {
      const broker = await start()
      const began = performance.now()
      const { written, absorbed } = await surviveKills(broker)
      expect(written).toBeGreaterThanOrEqual(events)
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      process.stdout.write(`${name}: ${written} events, ${absorbed} came again, ${seconds} s\n`)
    })
  })
}
