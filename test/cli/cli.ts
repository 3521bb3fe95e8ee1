import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atEndOfFile } from '../support/cleanups.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { runCli } from '../support/processes.ts'
import { testSchema } from '../support/target.ts'

export interface Result {
  code: number | null
  stdout: string
  stderr: string
  /** stdout as JSON. */
  json(): any
}

/** An empty folder of this test file's own. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-cli-'))
  atEndOfFile(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** `waybill` in a folder, with a database, or only its address, by its variables. */
export function createCli(cwd: string, database?: Pick<TestDatabase, 'url' | 'schema'> | string) {
  const where = typeof database === 'string' ? { url: database, schema: testSchema } : database
  return async (args: readonly string[], env: Record<string, string> = {}): Promise<Result> => {
    const { code, stdout, stderr } = await runCli(args, { cwd, env, ...(where && { database: where }) })
    return { code, stdout, stderr, json: () => JSON.parse(stdout) as unknown }
  }
}
