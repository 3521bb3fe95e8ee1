import { readFileSync, writeFileSync } from 'node:fs'
import type { Spec } from '../../src/options.ts'
import { joinPath } from '../../src/wording.ts'
import { projectFolder } from '../support/processes.ts'

/** A page below docs/reference. */
export function page(name: string): string {
  return readFileSync(`${projectFolder}docs/reference/${name}`, 'utf8')
}

/** The tables of a page that are made from the sources, by name; what stands around them is written by hand. */
export function tablesOf(name: string): Map<string, string> {
  const found = [...page(name).matchAll(/<!-- table: (.+?) -->\n\n([^]*?)\n\n<!-- end -->/g)]
  return new Map(found.map(([, table, text]) => [table!, text!]))
}

/** `UPDATE_DOCS=1 npx vitest run test/configuration test/cli` writes the tables anew. */
export function updateTables(name: string, tables: ReadonlyMap<string, string>): void {
  if (process.env['UPDATE_DOCS'] === undefined) return
  const text = page(name).replaceAll(
    /(<!-- table: (.+?) -->\n)[^]*?(<!-- end -->)/g,
    (all, start: string, table: string, end: string) =>
      tables.has(table) ? `${start}\n${tables.get(table)!}\n\n${end}` : all,
  )
  writeFileSync(`${projectFolder}docs/reference/${name}`, text)
}

/** Rows as a table of Markdown, aligned as the formatter does it. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map((cell) => cell.replaceAll('|', '\\|')))
  const widths = head.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => row[column]!.length)),
  )
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`
  return [line(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...cells.map(line)].join(
    '\n',
  )
}

const head = ['Option', 'Value', 'Default', 'Meaning']

/** One row for each option below a spec, in its order; parts that have a table of their own are left out. */
export function optionTable(spec: Spec, path: string, ownTables: readonly string[] = []): string {
  return table(head, rows(spec, path, ownTables))
}

function rows(spec: Spec, path: string, ownTables: readonly string[]): string[][] {
  const { shape } = spec
  if (shape.kind === 'either') return rows(shape.of[0]!, path, ownTables)
  if (shape.kind === 'list') return rows(shape.of, `${path}[]`, ownTables)
  if (shape.kind === 'record') return rows(shape.of, `${path}.<name>`, ownTables)
  if (shape.kind !== 'object') return []
  return Object.entries(shape.fields).flatMap(([key, field]) => {
    const at = joinPath(path, key).replaceAll(/\["(<name>|.*?\[\])"\]/g, '$1')
    const row = [`\`${at}\``, expectation(field), defaultOf(field), sentence(field.text)]
    return ownTables.includes(key) ? [] : [row, ...rows(field, at, ownTables)]
  })
}

function expectation({ expected, shape, secret }: Spec): string {
  const plain = shape.kind === 'value' && shape.type === 'other' ? `${expected} (in code)` : expected
  return secret && !expected.startsWith('a URL') ? `${plain}; never printed` : plain
}

function defaultOf({ presence, fallback, shape }: Spec): string {
  if (presence === 'required') return 'required'
  if (presence === 'optional') return ''
  return shape.kind === 'value' ? `\`${JSON.stringify(fallback)}\`` : ''
}

function sentence(text: string): string {
  const start = text.charAt(0).toUpperCase() + text.slice(1)
  return text === '' || /[.!]$/.test(start) ? start : `${start}.`
}
