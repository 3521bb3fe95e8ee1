import { spawnSync } from 'node:child_process'
import {
  readdirSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { atEndOfFile } from '../support/cleanups.ts'
import { projectFolder } from '../support/processes.ts'

// The linter has been seen to report nothing at all when it could not read a tsconfig. So: real settings, real
// sources, and mistakes planted among them.

const planted: Record<string, string> = {
  'src/relay/canary-a.ts': `import { b } from './canary-b.ts'\nexport const a = (): unknown => b`,
  'src/relay/canary-b.ts': `import { a } from './canary-a.ts'\nexport const b = (): unknown => a`,
  'src/relay/canary-floating.ts': `export function start(): void {\n  Promise.resolve()\n}`,
  'src/relay/canary-console.ts': `export const say = (): void => console.log('hello')`,
  'src/relay/canary-clean.ts': `import type { Publisher } from '../publishing/publisher.ts'\nimport { WaybillError } from '../errors.ts'\nimport { inSchema } from '../database/identifiers.ts'\nexport const clean = (publisher: Publisher): string => inSchema(publisher.name, new WaybillError('LEASE_LOST', 'x').message)`,
  'src/brokers/http/canary-clean.ts': `import { brokerUnavailable } from '../../publishing/publisher.ts'\nimport { describeError } from '../../errors.ts'\nimport { canary } from '../canary-sibling.ts'\nexport const clean = (): Error => brokerUnavailable(describeError(canary))`,
  'src/brokers/canary-sibling.ts': `export const canary = 1`,
  'test/relay/canary.test.ts': `import { expect, it } from 'vitest'\nit.only('is alone', () => expect(1).toBe(1))\nit.skip('is left out', () => expect(1).toBe(1))`,
}

const forbidden: [folder: string, target: string][] = [
  ['canary-leaf.ts', './relay/options.ts'],
  ['index.ts', './relay/options.ts'],
  ['telemetry', '../relay/options.ts'],
  ['database', '../schema/migrations.ts'],
  ['schema', '../publishing/publisher.ts'],
  ['outbox', '../relay/options.ts'],
  ['publishing', '../schema/migrations.ts'],
  ['relay', '../operations/cursor.ts'],
  ['relay', '../brokers/registry.ts'],
  ['consumer', '../relay/options.ts'],
  ['publications', '../relay/options.ts'],
  ['operations', '../admin/server.ts'],
  ['admin', '../configuration/load.ts'],
  ['configuration', '../cli/main.ts'],
  ['brokers', '../relay/options.ts'],
  ['clients', '../outbox/event.ts'],
  ['clients', 'pg'],
  ['brokers/http', '../../relay/options.ts'],
  ['relay/deeper', '../../operations/cursor.ts'],
]
const forbiddenFile = (folder: string, target: string): string =>
  folder.endsWith('.ts') ? `src/${folder}` : `src/${folder}/canary-${target.replaceAll(/\W/g, '')}.ts`
for (const [folder, target] of forbidden) {
  planted[forbiddenFile(folder, target)] = `export const load = (): Promise<unknown> => import('${target}')`
}

let complaints: Map<string, string[]>

beforeAll(() => {
  const copy = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-lint-')))
  atEndOfFile(() => rmSync(copy, { recursive: true, force: true }))
  for (const path of ['src', 'tsconfig.json', 'package.json', '.oxlintrc.json']) {
    cpSync(join(projectFolder, path), join(copy, path), { recursive: true })
  }
  symlinkSync(join(projectFolder, 'node_modules'), join(copy, 'node_modules'))
  for (const [path, text] of Object.entries(planted)) {
    mkdirSync(dirname(join(copy, path)), { recursive: true })
    writeFileSync(join(copy, path), text)
  }
  complaints = lint(copy)
}, 60_000)

/** Rules by file, as the script `lint` of package.json would report them. */
function lint(folder: string): Map<string, string[]> {
  const { scripts } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const [program, ...flags] = scripts['lint']!.split('&&')[0]!.trim().split(' ')
  const run = spawnSync(
    join(projectFolder, 'node_modules/.bin', program!),
    [...flags, '--format=json', 'src', 'test'],
    {
      cwd: folder,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    },
  )
  expect(run.status, run.stderr).toBe(1)
  const { diagnostics } = JSON.parse(run.stdout) as { diagnostics: { code: string; filename: string }[] }
  const found = new Map<string, string[]>()
  for (const { filename, code } of diagnostics) found.set(filename, [...(found.get(filename) ?? []), code])
  return found
}

describe('the linter objects to', () => {
  it('a cycle', () => {
    expect(complaints.get('src/relay/canary-a.ts')).toEqual(['import(no-cycle)'])
    expect(complaints.get('src/relay/canary-b.ts')).toEqual(['import(no-cycle)'])
  })

  it('a promise that nobody waits for', () => {
    expect(complaints.get('src/relay/canary-floating.ts')).toEqual(['typescript(no-floating-promises)'])
  })

  it('console in the library', () => {
    expect(complaints.get('src/relay/canary-console.ts')).toEqual(['eslint(no-console)'])
  })

  it('a test that is left out or alone', () => {
    const rules = complaints.get('test/relay/canary.test.ts')
    expect(rules).toContain('vitest(no-focused-tests)')
    expect(rules).toContain('vitest(no-disabled-tests)')
  })

  it.each(forbidden)('an import from %s of %s', (folder, target) => {
    expect(complaints.get(forbiddenFile(folder, target))).toContain('eslint(no-restricted-imports)')
  })
})

it('has a direction for every folder of src but cli, which may import everything', () => {
  const folders = readdirSync(join(projectFolder, 'src'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  )
  const settings = JSON.parse(readFileSync(join(projectFolder, '.oxlintrc.json'), 'utf8')) as {
    overrides: { files: string[]; rules: Record<string, unknown> }[]
  }
  const ruled = settings.overrides
    .filter(({ rules }) => 'no-restricted-imports' in rules)
    .flatMap(({ files }) => files)
  expect(ruled).toEqual(
    expect.arrayContaining(folders.flatMap(({ name }) => (name === 'cli' ? [] : [`src/${name}/**`]))),
  )
})

it('lets the allowed directions pass', () => {
  expect(complaints.get('src/relay/canary-clean.ts')).toBeUndefined()
  expect(complaints.get('src/brokers/http/canary-clean.ts')).toBeUndefined()
})
