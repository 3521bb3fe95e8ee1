import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { startNats } from '../support/nats.ts'
import { projectFolder, startNode } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { requireService } from '../support/services.ts'

const kinds = [
  { service: 'nats-server', start: () => startNats() },
  { service: 'redis-server', start: () => startRedis() },
] as const

it.for(kinds)('a $service of the test’s own comes back on its port', async ({ service, start }, context) => {
  requireService(context, service)
  const server = await start()
  expect(await opens(server.port)).toBe(true)
  const first = server.pid!
  await server.kill('SIGKILL')
  expect(isAlive(first)).toBe(false)
  expect(await opens(server.port)).toBe(false)
  await server.restart()
  expect(server.pid).not.toBe(first)
  expect(await opens(server.port)).toBe(true)
  await server.stop()
  expect(existsSync(server.folder)).toBe(false)
})

it('the servers of a killed process are stopped at the next start, with their folders', async (context) => {
  for (const { service } of kinds) requireService(context, service)
  const owner = startNode(join(projectFolder, 'test/tooling/fixtures/start-servers.ts'))
  const [line] = await owner.line(/^\[.*\]$/)
  const left = JSON.parse(line) as { pid: number; folder: string }[]
  await owner.kill()
  expect(left.map(({ pid }) => isAlive(pid))).toEqual([true, true])
  for (const { start } of kinds) await start()
  expect(left.map(({ pid }) => isAlive(pid))).toEqual([false, false])
  expect(left.map(({ folder }) => existsSync(folder))).toEqual([false, false])
})

function opens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
