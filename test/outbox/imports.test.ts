import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import * as waybill from '../../src/index.ts'

/** Every package that Node loads for a module, and those that it may load later by `import()`. */
function packagesOf(entry: string) {
  const seen = new Set<string>()
  const loaded = new Set<string>()
  const later = new Set<string>()
  function visit(file: string): void {
    if (seen.has(file)) return
    seen.add(file)
    // What remains is what runs: imports of types are erased.
    const { outputText } = ts.transpileModule(readFileSync(file, 'utf8'), {
      compilerOptions: {
        module: ts.ModuleKind.ESNext,
        target: ts.ScriptTarget.ES2023,
        verbatimModuleSyntax: true,
      },
    })
    for (const { fileName } of ts.preProcessFile(outputText).importedFiles) {
      if (fileName.startsWith('.')) visit(fileURLToPath(new URL(fileName, `file://${file}`)))
      else if (!fileName.startsWith('node:')) {
        const isDynamic = outputText.includes(`import('${fileName}')`)
        ;(isDynamic ? later : loaded).add(fileName)
      }
    }
  }
  visit(fileURLToPath(new URL(`../../src/${entry}`, import.meta.url)))
  return { loaded: [...loaded], later: [...later], files: seen.size }
}

describe('importing', () => {
  test('waybill loads uuid and nothing else', () => {
    const { loaded, later, files } = packagesOf('index.ts')
    expect(files).toBeGreaterThan(10)
    expect(loaded).toEqual(['uuid'])
    expect(later).toEqual(['@opentelemetry/api'])
  })

  test('waybill/clients/pg loads no package at all', () => {
    expect(packagesOf('clients/pg.ts')).toMatchObject({ loaded: [], later: [] })
  })

  test('waybill/relay loads neither the log nor the metrics nor the HTTP server', () => {
    expect(packagesOf('relay/index.ts').loaded.toSorted()).toEqual(['fastest-levenshtein', 'pg'])
    expect(packagesOf('admin/server.ts').loaded).toEqual(
      expect.arrayContaining(['hono', 'pino', 'prom-client']),
    )
  })

  test('waybill/migrations loads pg, so that the check above can fail', () => {
    expect(packagesOf('schema/index.ts').loaded).toEqual(['pg'])
  })
})

test('waybill exports createOutbox, the error and its codes, and nothing else', () => {
  expect(Object.keys(waybill).toSorted()).toEqual(['WaybillError', 'createOutbox', 'errorCodes', 'hasCode'])
})
