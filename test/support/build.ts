import { execFileSync } from 'node:child_process'
import { projectFolder } from './processes.ts'

/** Tests of the built command line need what the sources say now. */
export default function setup(): void {
  execFileSync(process.execPath, ['scripts/build.mjs', '--if-changed'], {
    cwd: projectFolder,
    stdio: 'inherit',
  })
}
