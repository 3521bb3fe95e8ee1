import { expect, it } from 'vitest'
import { kafkaUrl } from '../support/kafka.ts'
import { startNode } from '../support/processes.ts'
import { requireService } from '../support/services.ts'
import { blocksOf, readPage } from './markdown.ts'

it('the example of Kafka prints what its page says, and ends', async (context) => {
  requireService(context, 'kafka')
  const run = startNode('examples/kafka/main.ts', [], { env: { KAFKA_BROKER: await kafkaUrl() } })
  expect(await run.exit).toEqual({ code: 0, signal: null })
  const [printed] = blocksOf(readPage('examples/kafka/README.md')).filter(({ language }) => language === '')
  expect(run.stdout).toBe(printed!.code)
  expect(run.stderr).toBe('')
})
