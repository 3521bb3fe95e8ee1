import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { becomes, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { startTestServer } from '../support/postgres.ts'
import { type TestProcess, projectFolder, startNode } from '../support/processes.ts'

interface Owned {
  owner: TestProcess
  pid: number
  folder: string
}

async function startOwner(): Promise<Owned> {
  const owner = startNode(join(projectFolder, 'test/tooling/fixtures/start-postgres.ts'))
  const [line] = await owner.line(/^\{.*\}$/)
  return { owner, ...(JSON.parse(line) as { pid: number; folder: string }) }
}

it('a process that exits takes its server with it', async () => {
  const { owner, pid } = await startOwner()
  expect(isAlive(pid)).toBe(true)
  owner.signal('SIGTERM')
  expect((await owner.exit).code).toBe(0)
  expect(await becomes(() => !isAlive(pid), 10_000)).toBe(true)
})

it('the server of a killed process is stopped at the next start, one of a living process is not', async () => {
  const killed = await startOwner()
  const living = await startOwner()
  await killed.owner.kill()
  expect(isAlive(killed.pid)).toBe(true)
  await startTestServer()
  expect(isAlive(killed.pid)).toBe(false)
  expect(existsSync(killed.folder)).toBe(false)
  expect(isAlive(living.pid)).toBe(true)
})

it('a data directory of one’s own survives stop, and is refused while its server runs', async () => {
  const parent = makeFolder('waybill-own-data-')
  atEndOfFile(() => rmSync(parent, { recursive: true, force: true }))
  const dataDirectory = join(parent, 'data')
  const first = await startTestServer({ dataDirectory })
  await expect(startPostgres({ dataDirectory })).rejects.toThrow(/already/)
  await first.stop()
  const second = await startTestServer({ dataDirectory })
  expect(second.url.replace(/:\d+\//, '/')).toBe(first.url.replace(/:\d+\//, '/'))
})
