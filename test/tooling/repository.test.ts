import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { projectFolder } from '../support/processes.ts'

// What Git knows, and what it would know after `git add .`: never node_modules or dist.
const listing = spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: projectFolder,
  encoding: 'utf8',
})
const files = [...new Set(listing.stdout.split('\n').filter((file) => file !== ''))].filter(
  (file) => read(file) !== undefined,
)

function read(file: string): string | undefined {
  try {
    return readFileSync(join(projectFolder, file), 'utf8')
  } catch {
    return undefined // deleted, and not yet committed
  }
}

/** Lines of the files that match, as `file:line: text`. */
function find(where: RegExp, what: RegExp): string[] {
  return files
    .filter((file) => where.test(file))
    .flatMap((file) =>
      read(file)!
        .split('\n')
        .flatMap((line, i) => (what.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
    )
}

describe('the repository', () => {
  it('is seen by these checks', () => {
    expect(files).toContain('package.json')
    expect(files).toContain('src/errors.ts')
    expect(find(/^src\/errors\.ts$/, /class WaybillError/)).toHaveLength(1)
  })

  it('has the documents that a reader looks for, none of them empty', () => {
    for (const name of ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE']) {
      expect(read(name)?.trim() ?? '', name).not.toBe('')
    }
  })

  it('has a README that can be read at once: at most 150 lines', () => {
    expect(read('README.md')!.trimEnd().split('\n').length).toBeLessThanOrEqual(150)
  })

  it('leaves no test out', () => {
    const marks = /\b(describe|it|test|suite)\.(concurrent\.|sequential\.)?(skip|only|todo|skipIf)\b/
    // The linter's own test plants some, as text.
    expect(find(/^test\/(?!tooling\/(lint|repository)\.test\.ts$).*\.ts$/, marks)).toEqual([])
  })

  it('names no registry in a lock file', () => {
    expect(files.filter((file) => file.endsWith('package-lock.json')).length).toBeGreaterThan(1)
    expect(find(/(^|\/)package-lock\.json$/, /"resolved": "http/)).toEqual([])
  })

  it('leaves the choice of a package registry to the machine', () => {
    const host = /\b(registry\.(npmjs|yarnpkg)|registry\.[\w-]+\.(com|org|io)|deb\.debian\.org|repo1?\.maven)/
    expect(find(/^(?!test\/tooling\/repository\.test\.ts$)/, host)).toEqual([])
  })

  it('has no source file over 400 lines', () => {
    const sources = files.filter((file) => /\.(ts|mjs|sql)$/.test(file))
    const long = sources.flatMap((file) => {
      const lines = read(file)!.trimEnd().split('\n').length
      return lines > 400 ? [`${file}: ${lines} lines`] : []
    })
    expect(long).toEqual([])
  })

  it('keeps paths of a developer’s machine out', () => {
    const path = /(?<![\w.])\/(home|Users|root|work|tmp)\/[\w-]+/
    // A temporary folder of a runner in an example is one of these too: write $TMPDIR.
    expect(find(/^(?!test\/tooling\/repository\.test\.ts$).*\.(ts|mjs|md|json|ya?ml|sh|sql)$/, path)).toEqual(
      [],
    )
  })
})
