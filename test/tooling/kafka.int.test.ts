import { existsSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Kafka, logLevel } from 'kafkajs'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { becomes, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { consumeTopic, createTopics, kafkaAdmin } from '../support/kafka-consumer.ts'
import { projectFolder, startNode } from '../support/processes.ts'
import { describeWith } from '../support/services.ts'

describeWith('kafka-server', 'a Kafka of the test’s own', () => {
  let server: KafkaServer
  beforeAll(async () => {
    server = await startKafka()
  })

  it('keeps a message through a restart and through SIGKILL, and forgets it when it is wiped', async () => {
    await createTopics(server.url, { kept: {} })
    await send(server.proxiedUrl, 'kept', 'hello')
    const first = server.pid!
    await server.restart()
    expect(isAlive(first)).toBe(false)
    await server.kill('SIGKILL')
    expect(await opens(server.url)).toBe(false)
    await server.restart()
    const consumer = consumeTopic(server.url, 'kept')
    expect((await consumer.waitFor(1))[0]).toMatchObject({ partition: 0, offset: 0, body: 'hello' })
    await consumer.close()
    await server.wipe()
    await server.restart()
    expect(await (await kafkaAdmin(server.url)).listTopics()).toEqual([])
  }, 90_000)

  it('gives out the address of the proxy to those who come through it', async () => {
    const nodesSeen = async (url: string) => (await (await kafkaAdmin(url)).describeCluster()).brokers
    expect(await nodesSeen(server.proxiedUrl)).toEqual([
      { nodeId: 1, host: '127.0.0.1', port: server.proxy.port },
    ])
    expect(await nodesSeen(server.url)).toEqual([
      { nodeId: 1, host: '127.0.0.1', port: Number(server.url.split(':')[1]) },
    ])
  })

  it('ends with the process that started it, however that ends, and its files go at the next start', async () => {
    // In a folder of their own: in that of all, the start of another test's server may tidy up first.
    const env = { TMPDIR: makeFolder('waybill-owners-') }
    onTestFinished(() => rmSync(env.TMPDIR, { recursive: true, force: true }))
    const start = async () => {
      const owner = startNode(join(projectFolder, 'test/tooling/fixtures/start-kafka.ts'), [], { env })
      const [line] = await owner.line(/^\{.*\}$/, { timeoutMs: 60_000 })
      return { owner, ...(JSON.parse(line) as { pid: number; folder: string }) }
    }
    const first = await start()
    expect(isAlive(first.pid)).toBe(true)
    expect(first.folder.startsWith(env.TMPDIR)).toBe(true)
    await first.owner.kill()
    expect(await becomes(() => !isAlive(first.pid), 10_000)).toBe(true)
    expect(existsSync(first.folder)).toBe(true)
    const second = await start()
    expect(existsSync(first.folder)).toBe(false)
    await second.owner.kill()
    expect(await becomes(() => !isAlive(second.pid), 10_000)).toBe(true)
  }, 90_000)
})

async function send(url: string, topic: string, value: string): Promise<void> {
  const kafka = new Kafka({ brokers: [url], logLevel: logLevel.NOTHING, retry: { retries: 1 } })
  const producer = kafka.producer()
  try {
    await producer.connect()
    await producer.send({ topic, messages: [{ value }] })
  } finally {
    await producer.disconnect()
  }
}

function opens(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const [host, port] = url.split(':')
    const socket = connect(Number(port), host)
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
