import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/services.ts'
import { applications } from './fixtures/applications.ts'
import { rabbitmqKind } from './fixtures/brokers.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { startStage } from './fixtures/stage.ts'
import { expectWhole } from './kit.ts'

const rounds = 3 * repeat

describeWith('rabbitmq', 'a handler that publishes the next event in its transaction', () => {
  test(
    'makes each effect behind it happen once and in order, whatever is killed on the way',
    { timeout: 240_000 * repeat },
    async () => {
      const random = createRandom()
      const [first, second, third] = [
        await createTestDatabase(),
        await createTestDatabase(),
        await createTestDatabase(),
      ]
      const ledger = await createLedger(first)
      const [between, last] = [await applications(second), await applications(third)]
      const broker = await rabbitmqKind.start()
      const stages = [
        await startStage({ from: first, to: second, route: await broker.route('ledger'), publishes: true }),
        await startStage({ from: second, to: third, route: await broker.route('copy') }),
      ] as const
      const writers = ledger.startWriters({
        aggregates: 30,
        ready: () => last.until((count) => writers.committed - count < 300),
      })

      await last.more(50)
      for (let round = 0; round < rounds; round++) {
        const kills = stages.flatMap(({ killRelay, killConsumer }) => [killRelay, killConsumer])
        while (kills.length > 0) {
          const [kill] = kills.splice(random.between(0, kills.length - 1), 1)
          await delay(random.between(0, 300))
          await kill!()
        }
        await last.more(100)
      }
      await writers.stop()
      // In the queue of each aggregate, behind all that comes twice.
      await ledger.write(30, { aggregates: 30 })
      const { written } = await ledger.verdict()
      await last.until((count) => count >= written)
      for (const stage of stages) await stage.stop()

      await last.tell(ledger)
      await expectWhole(ledger, first)
      expect(written).toBeGreaterThan(100 * rounds)
      for (const applied of [between, last]) await applied.expectClean(written)
      const absorbed = stages.map((stage) => stage.absorbed())
      process.stdout.write(`${4 * rounds} kills, ${written} events, ${absorbed.join(' + ')} came again\n`)
    },
  )
})
