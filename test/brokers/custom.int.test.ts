import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { codeOf } from '../support/compile.ts'
import { projectFolder } from '../support/processes.ts'

const folder = await mkdtemp(join(tmpdir(), 'waybill-custom-'))
afterAll(() => rm(folder, { recursive: true }))

const [publisher = '', test = ''] = codeOf('brokers/custom.md', 'ts')

/** Only where a module lies is changed: the code is that of the page. */
function placed(code: string): string {
  return code
    .replaceAll(/'waybill\/(relay|testing)'/g, `'${projectFolder}src/$1/index.ts'`)
    .replaceAll("'./my-broker.ts'", `'${projectFolder}test/brokers/fixtures/my-broker.ts'`)
}

await writeFile(join(folder, 'my-publisher.ts'), placed(publisher))
await writeFile(join(folder, 'my-publisher-test.ts'), placed(test))
const warnings: Error[] = []
const warned = (warning: Error) => void warnings.push(warning)
process.on('warning', warned)

// Defines the tests of the page in this file.
await import(join(folder, 'my-publisher-test.ts'))

describe('the page about publishers of your own', () => {
  it('has an example that keeps the contract, and is told which body it was not tried with', () => {
    process.off('warning', warned)
    expect(warnings.map(({ message }) => message)).toEqual([
      'mine takes at most 1000000 bytes, so bodies of 1000012 bytes were not tried',
    ])
  })
})
