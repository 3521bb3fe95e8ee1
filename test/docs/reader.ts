import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestProcess, projectFolder, startProcess } from '../support/processes.ts'

/** Somebody who does what a page says, in a folder where `npm install` has been run. */
export interface Reader {
  readonly folder: string
  save(file: string, content: string): Promise<void>
  /** Runs one line in bash and answers its standard output; rejects when it fails. */
  run(line: string): Promise<string>
  /** Starts a line that does not end by itself. */
  start(line: string): TestProcess
}

export async function createReader(env: Record<string, string>): Promise<Reader> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-reader-'))
  atEndOfFile(() => rm(folder, { recursive: true, force: true }))
  await install(folder)
  const options = { cwd: folder, env: { npm_config_update_notifier: 'false', ...env } }
  return {
    folder,
    save: (file, content) => writeFile(join(folder, file), content),
    async run(line) {
      const process = startProcess('bash', ['-c', line], options)
      const { code } = await process.exit
      if (code !== 0) throw new Error(`${line}: exit ${code}\n${process.lines.join('\n')}`)
      return process.stdout
    },
    // `exec`, so that the signals of the test reach the program itself.
    start: (line) => startProcess('bash', ['-c', `exec ${line}`], options),
  }
}

/** What `npm install` would make, with this project as `waybill`: it is resolved by its own package.json. */
async function install(folder: string): Promise<void> {
  const modules = join(folder, 'node_modules')
  await mkdir(join(modules, '.bin'), { recursive: true })
  await symlink(projectFolder, join(modules, 'waybill'))
  await symlink('../waybill/dist/cli/main.js', join(modules, '.bin', 'waybill'))
  for (const name of ['pg', 'zod', 'standardwebhooks', '@types'])
    await symlink(join(projectFolder, 'node_modules', name), join(modules, name))
}
