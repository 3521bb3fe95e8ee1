import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createSockets } from '../../src/brokers/kafka/client.ts'
import { kafkaSourceOptions } from '../../src/brokers/kafka-options.ts'
import { resolveOptions } from '../../src/options.ts'
import { nodeWarnings } from '../support/warnings.ts'

test('a closed socket may be let go any number of times, and Node takes it for no leak', async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const options = { brokers: [`127.0.0.1:${port}`], group: 'g', topics: ['t'] }
  const { config } = createSockets(resolveOptions(kafkaSourceOptions, options))
  const warnings = nodeWarnings()

  const socket = config.socketFactory!({ host: '127.0.0.1', port, ssl: undefined as never, onConnect() {} })
  await once(socket.resume(), 'close')
  for (let request = 0; request < 20; request++) socket.unref()
  await new Promise((resolve) => setImmediate(resolve))
  expect(warnings).toEqual([])
})
