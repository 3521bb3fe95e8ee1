import { expect, it } from 'vitest'
import { blocksOf, readPage } from '../docs/markdown.ts'
import { natsUrl } from '../support/nats.ts'
import { startNode } from '../support/processes.ts'
import { redisUrl } from '../support/redis.ts'
import { requireService } from '../support/services.ts'

async function outputOf(example: string, env: Record<string, string>): Promise<string[]> {
  const run = startNode(`examples/brokers/${example}.ts`, [], { env })
  const { code } = await run.exit
  expect(run.stderr).toBe('')
  expect(code).toBe(0)
  const [printed] = blocksOf(readPage(`docs/brokers/${example}.md`)).filter(({ language }) => language === '')
  expect(run.stdout, 'what its page says').toBe(printed!.code)
  return run.stdout.trimEnd().split('\n')
}

const order = ['order.placed', 'order.paid', 'order.shipped'].map(
  (type) => `${type} {"order": "o-1", "total": 12.5}`,
)

it('the example of NATS delivers the events of an order, in order, and prints what its page says', async (context) => {
  requireService(context, 'nats')
  expect(await outputOf('nats', { NATS_URL: await natsUrl() })).toEqual(order)
}, 60_000)

it('the example of Redis Streams delivers the events of an order, in order, and prints what its page says', async (context) => {
  requireService(context, 'redis')
  expect(await outputOf('redis-streams', { REDIS_URL: await redisUrl() })).toEqual(order)
}, 60_000)
