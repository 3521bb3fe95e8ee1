import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

interface Import {
  readonly name: string
  /** By `import()`. */
  readonly later: boolean
}

const seen = new Map<string, readonly Import[]>()

/** What a file imports when it runs: imports of types are erased. */
function importsOf(file: string): readonly Import[] {
  const known = seen.get(file)
  if (known !== undefined) return known
  const { outputText } = ts.transpileModule(readFileSync(file, 'utf8'), {
    compilerOptions: {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2023,
      verbatimModuleSyntax: true,
    },
  })
  const imports: Import[] = []
  const visit = (node: ts.Node): void => {
    const isStatement = ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
    const later = ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
    const name = isStatement ? node.moduleSpecifier : later ? node.arguments[0] : undefined
    if (name !== undefined && ts.isStringLiteral(name)) imports.push({ name: name.text, later })
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, outputText, ts.ScriptTarget.ES2023))
  seen.set(file, imports)
  return imports
}

/**
 * Every package that Node loads for a module of src/, and those that it may load later by `import()`. Modules of ours
 * that come by `import()` count as loaded.
 */
export function packagesOf(entry: string): { loaded: string[]; later: string[]; files: number } {
  const files = new Set<string>()
  const loaded = new Set<string>()
  const later = new Set<string>()
  function visit(file: string): void {
    if (files.has(file)) return
    files.add(file)
    for (const { name, later: isLater } of importsOf(file)) {
      if (name.startsWith('.')) visit(fileURLToPath(new URL(name, `file://${file}`)))
      else if (!name.startsWith('node:')) (isLater ? later : loaded).add(name)
    }
  }
  visit(fileURLToPath(new URL(`../../src/${entry}`, import.meta.url)))
  return { loaded: [...loaded], later: [...later], files: files.size }
}
