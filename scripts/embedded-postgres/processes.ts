import { readFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'

/** True while a process with this id exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The command line of a process, or an empty text when there is none: tells a reused process id from ours. */
export function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\u0000', ' ')
  } catch {
    return process.platform === 'linux'
      ? ''
      : (spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout ?? '')
  }
}

/** Resolves once `done` holds; false when it does not within the limit. For state that only a look can tell. */
export async function becomes(done: () => boolean, limitMs: number, everyMs = 10): Promise<boolean> {
  const end = Date.now() + limitMs
  while (!done()) {
    if (Date.now() >= end) return false
    await delay(everyMs)
  }
  return true
}
