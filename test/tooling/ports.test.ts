import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { freePort } from '../../scripts/embedded-postgres.ts'

test('ports of servers are none that an outgoing connection may get, and none is given twice', async () => {
  const ports: number[] = []
  for (let i = 0; i < 50; i++) ports.push(await freePort())
  expect(new Set(ports).size).toBe(50)
  for (const port of ports) expect(port).toBeLessThan(32_768)
  const server = createServer().listen(ports[0], '127.0.0.1')
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject))
  await new Promise((resolve) => server.close(resolve))
})
