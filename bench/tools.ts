import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const debianFolder = '/usr/lib/postgresql'

/** A client program of PostgreSQL: from the PATH, or where Debian keeps it, the newest. Undefined: not there. */
export function findTool(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  return [...debianFolders(), ...folders].map((folder) => join(folder, name)).find(isExecutable)
}

function debianFolders(): string[] {
  try {
    const majors = readdirSync(debianFolder).filter((major) => /^\d+$/.test(major))
    return majors.sort((a, b) => Number(b) - Number(a)).map((major) => join(debianFolder, major, 'bin'))
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
