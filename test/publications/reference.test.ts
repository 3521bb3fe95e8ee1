import { describe, expect, test } from 'vitest'
import { actionText, causeTexts, symptomTexts } from '../../src/publications/explain.ts'
import { verdictRows } from '../../src/publications/verdict.ts'
import { page, table, tablesOf, updateTables } from '../configuration/reference.ts'
import { readPage, tableBelow } from '../docs/markdown.ts'

const guide = '../guides/diagnosis.md'

/** One row for each cause, in the order of the way from the source to the reader. */
function causes(): string {
  const rows = new Map<string, { symptoms: Set<string>; owner: string; next: Set<string> }>()
  for (const { cause, symptom, owner, action } of verdictRows) {
    const row = rows.get(cause) ?? { symptoms: new Set(), owner: owner ?? 'nobody', next: new Set() }
    row.symptoms.add(symptom === null ? 'none' : `\`${symptom}\``)
    row.next.add(actionText(action))
    rows.set(cause, row)
  }
  return table(
    ['Cause', 'Symptom', 'Next', 'What is the case, and what to do'],
    [...rows].map(([cause, { symptoms, owner, next }]) => [
      `\`${cause}\``,
      [...symptoms].join(', '),
      owner,
      `${causeTexts[cause]} _${[...next].join(' Then: ')}_`,
    ]),
  )
}

const firstCells = (heading: string) =>
  tableBelow(readPage('docs/guides/diagnosis.md'), heading).map(([cell]) => cell!.replaceAll('`', ''))

describe('docs/guides/diagnosis.md', () => {
  updateTables(guide, new Map([['causes', causes()]]))

  test('explains every state, and no other', () => {
    const states = new Set([...verdictRows.map(({ state }) => state), 'unknown'])
    expect(firstCells('What the states mean').toSorted()).toEqual(
      [...states].map((state) => (state === 'source-only' ? 'note-only' : state)).toSorted(),
    )
  })

  test('explains every symptom, and no other', () => {
    expect(firstCells('The five symptoms').toSorted()).toEqual(Object.keys(symptomTexts).toSorted())
  })

  test('explains every cause as the program does', () => {
    expect(tablesOf(guide).get('causes')).toBe(causes())
    for (const cause of Object.keys(causeTexts)) expect(page(guide)).toContain(`\`${cause}\``)
  })

  test('has a sentence for every cause of a verdict', () => {
    for (const { cause } of verdictRows) expect(causeTexts[cause]).toMatch(/^[A-Z].+\.$/)
  })
})
