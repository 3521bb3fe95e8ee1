import { describe, expect, test } from 'vitest'
import { type Signs, signWords } from '../../src/publications/signs.ts'
import { judgeEvent, judgePublication, verdictRows } from '../../src/publications/verdict.ts'

function* combinations(): Generator<Signs> {
  const { source, intent, consumer, projection, read, late, twice } = signWords
  for (const s of source)
    for (const i of intent)
      for (const c of consumer)
        for (const p of projection)
          for (const r of read)
            for (const l of late)
              for (const t of twice)
                yield { source: s, intent: i, consumer: c, projection: p, read: r, late: l, twice: t }
}

const healthy: Signs = {
  ...{ source: 'here', intent: 'relayed', consumer: 'applied', projection: 'current', read: 'current' },
  ...{ late: false, twice: 'no' },
}

describe('the table of verdicts', () => {
  test('has exactly one row for every combination of signs, and each row has a combination', () => {
    const met = new Set<unknown>()
    const wrong: unknown[] = []
    let count = 0
    for (const signs of combinations()) {
      count++
      const rows = verdictRows.filter(({ when }) => when(signs))
      for (const found of rows) met.add(found)
      if (rows.length !== 1) wrong.push([rows.map(({ cause }) => cause), signs])
    }
    expect(count).toBe(6 * 8 * 7 * 7 * 6 * 2 * 3)
    expect(wrong.slice(0, 5)).toEqual([])
    expect(met.size).toBe(verdictRows.length)
  })

  test('never calls anything visible that no fact shows as visible', () => {
    for (const signs of combinations()) {
      const { state, symptom, action } = judgePublication(signs)
      if (action !== 'none' || state !== 'projection-current') continue
      expect(symptom).toBeNull()
      expect(signs.read).toBe('current')
      expect(['relayed', 'aged-out']).toContain(signs.intent)
    }
  })

  test('knows the four states of a publication that goes its way', () => {
    const states = [
      { ...healthy, intent: 'none' as const },
      { ...healthy, intent: 'pending' as const },
      { ...healthy, consumer: 'silent' as const, projection: 'missing' as const },
      healthy,
    ].map((signs) => judgePublication(signs).state)
    expect(states).toEqual(['source-only', 'intent-pending', 'intent-relayed', 'projection-current'])
  })

  test('says who acts when several things are known', () => {
    expect(judgePublication({ ...healthy, consumer: 'rejected', projection: 'behind' })).toMatchObject({
      symptom: 'projection-old',
      cause: 'consumer-rejected',
      owner: 'consumer',
    })
    expect(judgePublication({ ...healthy, projection: 'missing' })).toMatchObject({
      cause: 'applied-but-projection-old',
      owner: 'projection',
    })
    expect(judgePublication({ ...healthy, read: 'cached' })).toMatchObject({
      symptom: 'public-read-old',
      cause: 'cached',
      owner: 'read',
    })
  })
})

describe('the verdict about an event without a revision', () => {
  const event: Signs = {
    ...{ source: 'unconfigured', intent: 'relayed', consumer: 'unconfigured', projection: 'unconfigured' },
    ...{ read: 'unconfigured', late: false, twice: 'no' },
  }

  test('is that of a publication up to the relay, and claims nothing beyond the consumers', () => {
    for (const intent of signWords.intent)
      for (const consumer of signWords.consumer)
        for (const late of signWords.late) {
          const signs = { ...event, intent, consumer, late }
          const verdict = judgeEvent(signs)
          expect(verdict.cause).not.toBe('no-rule')
          expect(verdict.state).not.toBe('projection-current')
          if (!['relayed', 'aged-out'].includes(intent)) expect(verdict).toEqual(judgePublication(signs))
          else expect(verdict).toMatchObject({ state: 'intent-relayed', symptom: null })
          if (verdict.action === 'none' && verdict.state === 'intent-relayed')
            expect(['applied', 'stale']).toContain(consumer)
        }
  })

  test('never offers to repeat a key that is not there', () => {
    for (const [consumer, late, action] of [
      ['rejected', false, 'retry-consumer'],
      ['silent', true, 'ask-consumer'],
      ['silent', false, 'wait'],
      ['unknown', true, 'find-fact'],
      ['applied', true, 'none'],
    ] as const)
      expect(judgeEvent({ ...event, consumer, late }).action).toBe(action)
  })
})
