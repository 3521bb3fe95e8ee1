import { describe, expect, it } from 'vitest'
import { blockerSql, deadSql, eventStateSql, unsettledSql } from '../../src/schema/event-state.ts'
import { eventStates } from '../../src/types.ts'
import { blocksOf, headingsOf, readPage, tableBelow } from './markdown.ts'

const lifeCycle = readPage('docs/life-cycle.md')
const [diagram] = blocksOf(lifeCycle).filter(({ language }) => language === 'mermaid')
const transitions = [...diagram!.code.matchAll(/^ +(\S+) --> (\S+) : /gm)].map(([, from, to]) => [from!, to!])
const codeIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word]) => word!)

describe('the life cycle', () => {
  it('draws exactly the states that there are', () => {
    const drawn = new Set(transitions.flat().filter((state) => state !== '[*]'))
    expect([...drawn].sort()).toEqual([...eventStates].sort())
    expect(diagram!.code.trim().split('\n')).toHaveLength(transitions.length + 1)
  })

  it('describes each of them once', () => {
    const described = tableBelow(lifeCycle, 'The states').map(([state]) => codeIn(state!).join())
    expect([...described].sort()).toEqual([...eventStates].sort())
  })

  it('asks in the order of the statement', () => {
    const asked = [...eventStateSql.matchAll(/(?:THEN|ELSE) '(\w+)'/g)].map(([, state]) => state)
    expect(tableBelow(lifeCycle, 'The states').map(([state]) => codeIn(state!)[0])).toEqual(asked)
  })

  it('names the columns that the statement reads', () => {
    const columns = new Set(
      [
        ...`${eventStateSql} ${unsettledSql} ${deadSql} ${blockerSql}`.matchAll(/\b[be]\.(\w+_at|holds)\b/g),
      ].map(([, column]) => column!),
    )
    const rows = tableBelow(lifeCycle, 'The states').map(([, row]) => row!)
    expect(columns.size).toBeGreaterThan(3)
    for (const column of columns) expect(rows.join(' ')).toContain(`\`${column}\``)
  })

  it('tells of each move in the drawing who makes it, and draws each that it tells of', () => {
    const told = tableBelow(lifeCycle, 'What moves it').flatMap(([from, to]) => {
      const ends = codeIn(to!)
      const starts = codeIn(from!)
      return (starts.length > 0 ? starts : ['[*]']).flatMap((start) =>
        (ends.length > 0 ? ends : ['[*]']).map((end) => `${start} ${end}`),
      )
    })
    expect(new Set(told)).toEqual(new Set(transitions.map(([from, to]) => `${from} ${to}`)))
  })
})

describe('the glossary', () => {
  const terms = headingsOf(readPage('docs/glossary.md')).slice(1)

  it('has a word for each thing that the code and the pages speak of', () => {
    const needed = [
      'Event',
      'Aggregate',
      'Revision',
      'Intent',
      'Bucket',
      'Lease',
      'Epoch',
      'Relay',
      'Publisher',
    ]
    const more = ['Broker', 'Destination', 'Route', 'Attempt', 'Evidence', 'Circuit', 'Settlement', 'Receipt']
    const rest = [
      'Dead letter',
      'Crash suspect',
      'Low-water mark',
      'Wake-up',
      'Retention',
      'Projection',
      'Lane',
    ]
    for (const term of [...needed, ...more, ...rest]) expect(terms).toContain(term)
  })

  it('has each word once, with a sentence', () => {
    expect(new Set(terms).size).toBe(terms.length)
    const page = readPage('docs/glossary.md')
    for (const term of terms) expect(page).toMatch(new RegExp(`^## ${term}\\n\\n[A-Z].*\\.$`, 'm'))
  })
})

describe('the guarantees', () => {
  it('are the same in the README and on their page', () => {
    const page = readPage('docs/guarantees.md')
    const readme = readPage('README.md')
    const rows = tableBelow(page, 'Guarantees')
    expect(rows.map(([name]) => name)).toEqual(['loss', 'duplicates', 'order', 'isolation'])
    expect(tableBelow(readme, 'Waybill')).toEqual(rows)
  })
})
