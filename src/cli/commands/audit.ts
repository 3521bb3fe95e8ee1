import type { Action } from '../context.ts'
import { exitCodes } from '../exit-code.ts'
import { usageInvalid } from '../../input.ts'
import type { AuditReport } from '../../publications/audit.ts'
import { symptomTexts } from '../../publications/explain.ts'
import type { Symptom } from '../../publications/verdict.ts'
import { closest, printable, show } from '../../wording.ts'
import type { Output } from '../output.ts'
import { plural } from '../text.ts'

/** Looks for every symptom in whole publications; 1 when it finds one. */
export function auditCommand(flags: { publication?: string; reads?: boolean }): Action {
  return ({ output, withDatabase }) =>
    withDatabase(async (db, configuration) => {
      const { openFactSources } = await import('../../publications/fact-sources.ts')
      const { auditPublication } = await import('../../publications/audit.ts')
      const opened = openFactSources(db, configuration)
      const reports: AuditReport[] = []
      try {
        for (const publication of chosen(opened.publications, flags.publication)) {
          const progress = await output.progress(`audit ${publication.name}`, () => Promise.resolve(null))
          try {
            const report = await auditPublication(opened.sources, publication, {
              withReads: flags.reads === true,
              onProgress: (checked) => progress.update(checked),
              isOver: () => output.closed,
            })
            reports.push(report)
          } finally {
            progress.stop()
          }
          printReport(output, reports.at(-1)!)
        }
      } finally {
        await opened.close()
      }
      output.data({ publications: reports })
      return reports.some(({ symptoms }) => Object.keys(symptoms).length > 0)
        ? exitCodes.failed
        : exitCodes.done
    })
}

function chosen<P>(publications: ReadonlyMap<string, P>, name: string | undefined): readonly P[] {
  if (publications.size === 0) {
    throw usageInvalid(
      'there is nothing to audit: describe a publication under "publications" of the configuration',
    )
  }
  if (name === undefined) return [...publications.values()]
  const found = publications.get(name)
  if (found !== undefined) return [found]
  const meant = closest(name, [...publications.keys()])
  throw usageInvalid(
    `unknown publication ${show(name)}, ${meant === undefined ? `expected one of ${[...publications.keys()].join(', ')}` : `did you mean ${show(meant)}?`}`,
  )
}

function printReport(
  output: Output,
  { publication, checked, complete, states, symptoms, gaps }: AuditReport,
): void {
  output.print(
    output.paint(
      'bold',
      `${printable(publication)}: ${plural(checked, 'revision')}${complete ? '' : ', not all of them'}`,
    ),
  )
  for (const [state, count] of Object.entries(states).toSorted(([, a], [, b]) => b - a)) {
    output.print(`  ${state.padEnd(22)}${count.toLocaleString('en')}`)
  }
  for (const [symptom, { count, first }] of Object.entries(symptoms)) {
    output.print()
    const told = `${symptom}, ${symptomTexts[symptom as Symptom]}`
    output.print(`  ${output.paint('red', told)}: ${count.toLocaleString('en')}`)
    for (const { id, revision, cause } of first) output.print(`    ${printable(id)} ${revision}, ${cause}`)
    if (count > first.length) output.print(`    and ${plural(count - first.length, 'other')}`)
  }
  if (Object.keys(symptoms).length === 0) output.print(`  ${output.paint('green', 'no symptom')}`)
  for (const { name, reason } of gaps)
    output.print(`  ${output.paint('yellow', 'not looked at')}: ${name}, ${reason}`)
  output.print()
}
