import type { Machine } from './machine.ts'
import type { Figure, Section } from './part.ts'
import { reaches, targets } from './targets.ts'

export interface Report {
  machine: Machine
  postgres: string
  settings: Readonly<Record<string, string | number>>
  quick: boolean
  /** ISO 8601. */
  startedAt: string
  minutes: number
  figures: Readonly<Record<string, Figure>>
  sections: readonly Section[]
}

/** One object: every figure at its path, null where there is none, with the reason beside them. */
export function toJson(report: Report): Record<string, unknown> {
  const { machine, postgres, settings, quick, startedAt, minutes } = report
  const json: Record<string, unknown> = { quick, startedAt, minutes, machine, postgres, settings }
  const reasons: Record<string, string> = {}
  for (const [path, value] of Object.entries(report.figures)) {
    put(json, path.split('.'), typeof value === 'number' ? value : null)
    if (typeof value !== 'number') reasons[path] = value.missing
  }
  json['reasons'] = reasons
  return json
}

function put(into: Record<string, unknown>, [first, ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) into[first!] = value
  else put((into[first!] ??= {}) as Record<string, unknown>, rest, value)
}

/** The same for people. */
export function toMarkdown(report: Report): string {
  const { machine, postgres, settings, quick } = report
  const set = Object.entries(settings).map(([name, value]) => `\`${name} = ${value}\``)
  return [
    '# Results',
    'Written by `npm run bench -- --write`; [what is measured, and how to read it](../docs/guides/benchmarks.md). Absolute figures are those of one machine, the ratios travel better.',
    ...(quick
      ? ['**A quick run with a tenth of the rows or less: for a look only, these figures say little.**']
      : []),
    table(
      ['machine', ''],
      [
        ['processor', `${machine.cpu}, ${machine.cores} cores`],
        ['memory', `${machine.memoryGb} GB`],
        ['system', machine.system],
        ['load average before', machine.loadBefore],
        ['Node.js', machine.node],
        ['PostgreSQL', postgres],
        ['settings', set.join(', ')],
        ['run', `${report.startedAt}, ${report.minutes} minutes`],
      ],
    ),
    '## At a glance',
    table(['figure', 'value', 'required', 'aim', ''], glance(report.figures)),
    ...report.sections.flatMap(({ title, notes, head, rows }) => [
      `## ${title}`,
      ...notes,
      table(head, rows),
    ]),
  ].join('\n\n')
}

function glance(figures: Report['figures']): (string | number)[][] {
  return Object.entries(figures).map(([path, value]) => {
    const target = targets[path]
    const bound = (limit: number | undefined) =>
      target === undefined || limit === undefined ? '' : `${target.compare} ${limit}`
    const required = [bound(target?.required), bound(target?.aim)]
    if (typeof value !== 'number') return [`\`${path}\``, '–', ...required, value.missing]
    const verdict = target === undefined ? '' : reaches(value, target) ? 'reached' : 'missed'
    return [`\`${path}\``, value, ...required, verdict]
  })
}

type Cell = string | number | null

/** Columns are padded, as prettier would. */
function table(head: readonly Cell[], rows: readonly (readonly Cell[])[]): string {
  const text = [head, ...rows].map((row) => row.map((cell) => `${cell ?? '–'}`.replaceAll('|', '\\|')))
  const widths = head.map((_, column) => Math.max(3, ...text.map((row) => row[column]!.length)))
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`
  const [first, ...others] = text
  return [line(first!), line(widths.map((width) => '-'.repeat(width))), ...others.map(line)].join('\n')
}
