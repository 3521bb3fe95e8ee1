import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { isReservedHeader } from '../../src/publishing/headers.ts'
import { readHeaders } from '../../src/outbox/headers.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const guide = (name: string) => readFileSync(`${root}docs/guides/${name}`, 'utf8')
const blocks = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, code]) => code!)

/** What the compiler says about some modules that import the package by its name, as a user would. */
function compile(sources: readonly string[]): string[] {
  const files = new Map(sources.map((source, index) => [`${root}example-${index}.ts`, source]))
  const options: ts.CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    moduleDetection: ts.ModuleDetectionKind.Force,
    allowImportingTsExtensions: true,
    noEmit: true,
    skipLibCheck: true,
    types: ['node'],
    lib: ['lib.es2023.d.ts', 'lib.es2024.string.d.ts'],
    paths: {
      waybill: [`${root}src/index.ts`],
      'waybill/clients/pg': [`${root}src/clients/pg.ts`],
      'waybill/migrations': [`${root}src/schema/index.ts`],
    },
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists } = host
  host.getSourceFile = (name, ...rest) => {
    const source = files.get(name)
    return source === undefined
      ? getSourceFile.call(host, name, ...rest)
      : ts.createSourceFile(name, source, ts.ScriptTarget.ES2023)
  }
  host.fileExists = (name) => files.has(name) || fileExists.call(host, name)
  const program = ts.createProgram([...files.keys()], options, host)
  return [...files.keys()].flatMap((name) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(name))
      .map(
        ({ messageText }) =>
          `${name.slice(root.length)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
      ),
  )
}

test('every TypeScript example compiles, and one with a mistake does not', () => {
  const examples = ['writing-events.md', 'migrations.md'].flatMap((name) => blocks(guide(name), 'ts'))
  expect(examples.length).toBeGreaterThan(5)
  const wrong = examples[0]!.replace("type: 'order.created'", 'type: 5')
  const problems = compile([...examples, wrong])
  expect(problems).toEqual([
    expect.stringMatching(new RegExp(`^example-${examples.length}\\.ts: No overload matches`)),
  ])
}, 60_000)

test('the guide lists every reserved header', () => {
  const [, list] = /These names are taken, in upper or lower case: (.*?)\n/s.exec(guide('writing-events.md'))!
  const names = [...list!.matchAll(/`([\w-]+)(…?)`/g)].map(([, name, more]) =>
    more === '' ? name! : `${name}x`,
  )
  expect(names.length).toBeGreaterThan(20)
  for (const name of names)
    expect(() => readHeaders({ [name]: 'x' }, 'headers')).toThrow(/is a reserved header/)
  const source = readFileSync(`${root}src/publishing/headers.ts`, 'utf8')
  const known = [...source.matchAll(/'([a-z-]+)'/g)].map(([, name]) => name!)
  for (const name of known.filter((name) => isReservedHeader(name))) expect(list).toContain(`\`${name}`)
})
