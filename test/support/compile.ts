import { readFileSync, readdirSync } from 'node:fs'
import ts from 'typescript'
import { projectFolder } from './processes.ts'

/** The code of a page in one language: what stands between its fences, without the indent of a list. */
export function codeOf(page: string, language: string): string[] {
  const text = readFileSync(`${projectFolder}docs/${page}`, 'utf8')
  return [...text.matchAll(new RegExp(`^( *)\`\`\`${language}\n(.*?)^\\1\`\`\``, 'gms'))].map(
    ([, indent, code]) => code!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  )
}

/** The configurations in JSON of a page, with something for each variable. */
export function configurationsOf(page: string): { destinations: Record<string, { type: string }> }[] {
  return codeOf(page, 'json')
    .filter((text) => 'destinations' in (JSON.parse(text) as object))
    .map((text) => text.replaceAll('"${AMQP_URL}"', '"amqp://127.0.0.1"').replaceAll(/\$\{\w+\}/g, 'secret'))
    .map((text) => JSON.parse(text) as { destinations: Record<string, { type: string }> })
}

/** What the compiler says about some modules that import the package by its names, as a user would. */
export function compile(sources: readonly string[]): string[] {
  const files = new Map(sources.map((source, index) => [`${projectFolder}example-${index}.ts`, source]))
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
    lib: ['lib.es2023.d.ts', 'lib.es2024.string.d.ts', 'lib.dom.d.ts'],
    paths: entryPoints(),
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
          `${name.slice(projectFolder.length)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
      ),
  )
}

/** The sources behind the names that package.json exports. */
function entryPoints(): Record<string, string[]> {
  const { exports } = JSON.parse(readFileSync(`${projectFolder}package.json`, 'utf8')) as {
    exports: Record<string, { types: string } | string>
  }
  return Object.fromEntries(
    Object.entries(exports).flatMap(([name, target]) =>
      typeof target === 'string'
        ? []
        : [
            [
              `waybill${name.slice(1)}`,
              [target.types.replace('./dist/', `${projectFolder}src/`).replace('.d.ts', '.ts')],
            ],
          ],
    ),
  )
}

/** The pages below a folder of docs/. */
export function pagesIn(folder: string): string[] {
  return readdirSync(`${projectFolder}docs/${folder}`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`)
}
