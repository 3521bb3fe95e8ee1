import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atEndOfFile } from '../support/cleanups.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { runCli } from '../support/processes.ts'

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

/** `waybill` in a folder, with a database by its variable. */
export function createCli(cwd: string, database?: TestDatabase | string) {
  const url = typeof database === 'string' ? database : database?.url
  return async (args: readonly string[], env: Record<string, string> = {}): Promise<Result> => {
    const databaseUrl: Record<string, string> = url === undefined ? {} : { WAYBILL_DATABASE_URL: url }
    const { code, stdout, stderr } = await runCli(args, { cwd, env: { ...databaseUrl, ...env } })
    return { code, stdout, stderr, json: () => JSON.parse(stdout) as unknown }
  }
}
