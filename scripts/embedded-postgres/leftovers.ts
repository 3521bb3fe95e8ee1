import {
  existsSync,
  mkdtempSync,
  chmodSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { becomes, commandLine, isAlive } from './processes.ts'

const ownerFile = 'owner.pid'

/** A new folder that the server's account can enter; it names the process that it belongs to. */
export function makeFolder(prefix: string): string {
  const folder = mkdtempSync(join(temporaryFolder(), prefix))
  chmodSync(folder, 0o755)
  writeOwner(folder)
  return folder
}

/** Marks a folder as used by this process. */
export function writeOwner(folder: string): void {
  writeFileSync(join(folder, ownerFile), String(process.pid))
}

/** A private TMPDIR (mode 0700) cannot be entered by another account. */
function temporaryFolder(): string {
  const candidates = [tmpdir(), '/tmp', '/var/tmp']
  return candidates.find((folder) => existsSync(folder) && isEnterable(folder)) ?? tmpdir()
}

function isEnterable(folder: string): boolean {
  if (process.getuid?.() !== 0) return true
  for (let path = folder; ; path = dirname(path)) {
    if ((statSync(path).mode & 0o001) === 0) return false
    if (path === dirname(path)) return true
  }
}

/** The process id in a data directory's `postmaster.pid`, when that process is the server of this very directory. */
export function runningServer(dataDirectory: string): number | undefined {
  const file = join(dataDirectory, 'postmaster.pid')
  if (!existsSync(file)) return undefined
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
  return Number.isInteger(pid) && pid > 1 && isAlive(pid) && commandLine(pid).includes(dataDirectory)
    ? pid
    : undefined
}

/** Stops, by its process id, a server that nobody waits for any more. */
export async function stopServer(pid: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    try {
      process.kill(pid, signal)
    } catch {
      return
    }
    if (await becomes(() => !isAlive(pid), 10_000)) return
  }
}

/**
 * Removes what runs left behind whose process was killed: first the servers, which `findServers` knows by the
 * folder, then the folder.
 */
export async function clearLeftovers(
  prefix: string,
  findServers: (folder: string) => number[],
): Promise<void> {
  const parent = temporaryFolder()
  for (const name of readdirSync(parent).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(parent, name)
    const owner = readOwner(folder)
    if (owner === undefined || isAlive(owner) || !isMine(folder)) continue
    for (const pid of findServers(folder)) await stopServer(pid)
    try {
      rmSync(folder, { recursive: true, force: true })
    } catch {
      // Another run clears it at this very moment.
    }
  }
}

function isMine(folder: string): boolean {
  try {
    return statSync(folder).uid === process.getuid?.()
  } catch {
    return false
  }
}

/** The process that a folder belongs to, alive or not. */
export function readOwner(folder: string): number | undefined {
  try {
    const owner = Number(readFileSync(join(folder, ownerFile), 'utf8'))
    return Number.isInteger(owner) && owner > 0 ? owner : undefined
  } catch {
    return undefined
  }
}
