import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { expect, it } from 'vitest'
import { isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { startAws } from '../support/aws.ts'
import { startNode } from '../support/processes.ts'
import { describeWith } from '../support/services.ts'
import { consumeSqs } from '../support/sqs-consumer.ts'

describeWith('sqs', 'SQS and SNS of the test’s own', () => {
  it('come back on the same port, with the queues and topics that were made', async () => {
    const server = await startAws()
    const queueUrl = await server.createQueue('kept')
    await server.createTopic('news', ['kept'])
    const first = server.pid!
    await server.kill('SIGKILL')
    expect(isAlive(first)).toBe(false)
    await expect(fetch(server.url)).rejects.toThrow('fetch failed')
    await server.restart()
    await server.sqs.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: '"🚚"' }))
    expect((await consumeSqs(server.sqs, queueUrl).waitFor(1))[0]).toMatchObject({ body: '"🚚"' })
  })

  it('end with the process that started them, also when that is killed', async () => {
    const starter = startNode('test/tooling/fixtures/start-aws.ts')
    const [, pid] = await starter.line(/^started (\d+)$/)
    expect(isAlive(Number(pid))).toBe(true)
    await starter.kill()
    await expect.poll(() => isAlive(Number(pid)), { timeout: 5000 }).toBe(false)
  })
})
