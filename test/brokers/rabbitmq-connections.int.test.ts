import { beforeAll, describe, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { testConnection } from './connection-checks.ts'
import { failure, publish, publishOne } from './publishing.ts'
import { consumeAgain, rabbitmq, received, server, startBench } from './rabbitmq-bench.ts'

describeWith('rabbitmq', 'RabbitMQ', () => {
  beforeAll(startBench)

  describe('the connection', () => {
    testConnection({
      port: () => server.port,
      create: (port) => rabbitmq({ url: server.url.replace(`:${server.port}`, `:${port}`) }),
    })

    it('may be cut while messages are under way: what was confirmed is published, and the next call works', async () => {
      const proxy = await createProxy(server.port)
      const publisher = await rabbitmq({ url: server.url.replace(`:${server.port}`, `:${proxy.port}`) })
      await publishOne(publisher)
      proxy.delay(20)
      const messages = Array.from({ length: 100 }, () => testMessage())
      const call = publish(publisher, messages)
      await new Promise(setImmediate)
      proxy.reset()
      const results = await call
      expect(results.some(({ status }) => status === 'retry')).toBe(true)
      for (const [index, result] of results.entries()) {
        if (result.status === 'published') await received(messages[index]!)
        else expect(result).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
      }
      expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
      expect(proxy.accepted).toBe(2)
    })

    it('that cannot be made is an outage, at once', async () => {
      const proxy = await createProxy(server.port)
      await proxy.down()
      const publisher = await rabbitmq({ url: `amqp://guest:hunter2@127.0.0.1:${proxy.port}/vhost` })
      const error = await failure(publishOne(publisher))
      expect(error).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining(
          `cannot connect to RabbitMQ at 127.0.0.1:${proxy.port}: connect ECONNREFUSED`,
        ),
      })
      expect(error.message).not.toContain('hunter2')
    })

    it('that is made and never answered is given up', async () => {
      const proxy = await createProxy(server.port)
      proxy.blackhole()
      const url = server.url.replace(`:${server.port}`, `:${proxy.port}`)
      const publisher = await rabbitmq({ url, connectTimeoutMs: 200 })
      expect(await failure(publishOne(publisher))).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('timed out'),
      })
      const patient = await rabbitmq({ url, connectTimeoutMs: 20_000 })
      expect(await failure(publishOne(patient, testMessage(), 200))).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
      })
    })

    it('ends with the broker, and comes back with it', async () => {
      const publisher = await rabbitmq({ url: server.url })
      await publisher.connect!({ signal: AbortSignal.timeout(5000) })
      await server.kill('SIGTERM')
      expect(await failure(publishOne(publisher))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      await server.restart()
      expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
      await consumeAgain()
    })
  })

  describe('closing', () => {
    it('in order leaves no complaint in the log of the broker', async () => {
      const publisher = await rabbitmq({ url: server.url, name: 'orderly' })
      await publishOne(publisher)
      const from = server.log().length
      await publisher.close()
      await expect.poll(() => server.log().slice(from).join('\n')).toMatch(/closing AMQP connection.*orderly/)
      expect(server.log().slice(from).join('\n')).not.toMatch(/client unexpectedly closed/)
    })

    it('while a connection is being made ends the call', async () => {
      const proxy = await createProxy(server.port)
      proxy.blackhole()
      const publisher = await rabbitmq({ url: server.url.replace(`:${server.port}`, `:${proxy.port}`) })
      const started = performance.now()
      const call = failure(publishOne(publisher))
      await publisher.close()
      expect(await call).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      expect(performance.now() - started).toBeLessThan(2000)
    })
  })
})
