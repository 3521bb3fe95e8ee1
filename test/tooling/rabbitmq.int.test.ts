import { connect } from 'node:net'
import { Connection } from 'rabbitmq-client'
import { beforeAll, expect, it } from 'vitest'
import { isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { type RabbitmqServer, startRabbitmq } from '../support/rabbitmq.ts'
import { describeWith } from '../support/services.ts'

describeWith('rabbitmq', 'a RabbitMQ of the test’s own', () => {
  let server: RabbitmqServer
  beforeAll(async () => {
    server = await startRabbitmq()
  })

  it('keeps a durable message through a restart', async () => {
    const queue = { queue: 'kept', durable: true }
    await withConnection(server.url, async (connection) => {
      await connection.queueDeclare(queue)
      const publisher = connection.createPublisher({ confirm: true })
      await publisher.send({ routingKey: 'kept', durable: true }, 'hello')
      await publisher.close()
    })
    const first = server.pid!
    await server.restart()
    expect(isAlive(first)).toBe(false)
    await withConnection(server.url, async (connection) => {
      expect((await connection.basicGet('kept'))?.body).toBe('hello')
    })
  })

  it('answers rabbitmqctl, refuses connections while it is killed, and comes back', async () => {
    expect(await server.control('list_queues', 'name', '--silent')).toContain('kept')
    await server.kill('SIGKILL')
    await expect(opens(server.port)).resolves.toBe(false)
    await server.restart()
    await expect(opens(server.port)).resolves.toBe(true)
  })
})

async function withConnection(url: string, use: (connection: Connection) => Promise<void>): Promise<void> {
  const connection = new Connection(url)
  try {
    await use(connection)
  } finally {
    await connection.close()
  }
}

function opens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
