import { describe, expect, it } from 'vitest'
import { projectFolder, startNode } from '../support/processes.ts'

async function run(name: string): Promise<string[]> {
  const example = startNode(`${projectFolder}examples/aws/${name}.ts`)
  expect(await example.exit, example.stdout + example.stderr).toEqual({ code: 0, signal: null })
  return example.stdout.trim().split('\n')
}

const rest = 'group order/o-1, own headers {"tenant":"north"}'
const created = `order.created {"order_id": "o-1"}, ${rest}`
const paid = `order.paid {"total": 12.5, "order_id": "o-1"}, ${rest}`

describe('the examples for AWS', () => {
  it('bring the events of an order to a queue, in order', async () => {
    expect(await run('sqs')).toEqual(['2 events published', created, paid])
  })

  it('bring the events of an order to the queues behind a topic, in order', async () => {
    expect(await run('sns')).toEqual([
      '2 events published',
      `search: ${created}`,
      `search: ${paid}`,
      `mail: ${paid}`,
    ])
  })
})
