import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const debianFolder = '/usr/lib/postgresql'

/** A client program of PostgreSQL: from the PATH, or where Debian keeps it, the newest. Undefined: not there. */
export function findTool(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  const debian = debianMajors().map((major) => join(debianFolder, major, 'bin'))
  return [...debian, ...folders].map((folder) => join(folder, name)).find(isExecutable)
}

/** The newest server that Debian keeps here, as people run it: the one of the npm package is built for size (`-Os`). */
export function findServer(): { binaries: string; major: number } | undefined {
  const major = debianMajors().find((name) => isExecutable(join(debianFolder, name, 'bin', 'postgres')))
  return major === undefined ? undefined : { binaries: join(debianFolder, major), major: Number(major) }
}

function debianMajors(): string[] {
  try {
    const majors = readdirSync(debianFolder).filter((name) => /^\d+$/.test(name))
    return majors.sort((a, b) => Number(b) - Number(a))
  } catch {
    return []
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
