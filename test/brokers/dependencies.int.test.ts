import { cpSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { brokerTypes } from '../../src/brokers/registry.ts'
import { configurationsOf } from '../support/compile.ts'
import { packagesOf } from '../support/imports.ts'
import { projectFolder, startNode } from '../support/processes.ts'

const script = 'test/brokers/fixtures/make-publishers.ts'

/** A copy of the sources with what the package depends on, and nothing that is optional. */
const folder = makeFolder('waybill-dependencies-')
afterAll(() => rmSync(folder, { recursive: true }))
beforeAll(() => {
  cpSync(`${projectFolder}src`, join(folder, 'src'), { recursive: true })
  cpSync(`${projectFolder}package.json`, join(folder, 'package.json'))
  cpSync(projectFolder + script, join(folder, script))
  for (const name of Object.keys(packageJson.dependencies)) {
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(`${projectFolder}node_modules/${name}`, link)
  }
})

const libraries = new Map(brokerTypes.map((type) => [type, packagesOf(`brokers/${type}.ts`).later]))
const types = brokerTypes.filter((type) => libraries.get(type)!.length > 0)

/** A destination as the page of its broker shows it first. */
function exampleOf(type: string): { type: string; options: object } {
  const destinations = configurationsOf(`brokers/${type}.md`).flatMap((all) =>
    Object.values(all.destinations),
  )
  const found = destinations.find((destination) => destination.type === type)
  if (found === undefined) throw new Error(`docs/brokers/${type}.md shows no destination in JSON`)
  const { type: _, ...options } = found
  return { type, options }
}

describe('a broker whose library is not installed', () => {
  it('says so in one sentence, with the command that installs it', async () => {
    const run = startNode(join(folder, script), [JSON.stringify(types.map(exampleOf))], {
      cwd: folder,
    })
    expect(await run.exit, run.stderr).toEqual({ code: 0, signal: null })
    const said = run.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { type: string; code?: string; message?: string })
    expect(said.map(({ type }) => type)).toEqual(types)
    expect(types.length).toBeGreaterThan(2)
    for (const { type, code, message = '' } of said) {
      expect(code, type).toBe('DEPENDENCY_MISSING')
      const [, name] = /^\S+ needs the package (\S+), which is not installed: run "npm install .*"$/.exec(
        message,
      )!
      expect(libraries.get(type)).toContain(name)
      expect(message).toContain(`npm install ${name}`)
    }
  })
})
