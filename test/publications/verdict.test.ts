import { describe, expect, test } from 'vitest'
import { type Signs, signWords } from '../../src/publications/signs.ts'
import { judgeEvent, judgePublication, verdictRows } from '../../src/publications/verdict.ts'

function* combinations(): Generator<Signs> {
  const { source, intent, destination, consumer, projection, read, late, twice } = signWords
  for (const s of source)
    for (const i of intent)
      for (const d of destination)
        for (const c of consumer)
          for (const p of projection)
            for (const r of read)
              for (const l of late)
                for (const t of twice)
                  yield {
                    ...{ source: s, intent: i, destination: d, consumer: c, projection: p, read: r, late: l },
                    twice: t,
                  }
}

const healthy: Signs = {
  ...{ source: 'here', intent: 'relayed', consumer: 'applied', projection: 'current', read: 'current' },
  ...{ destination: 'up', late: false, twice: 'no' },
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
    expect(count).toBe(6 * 10 * 3 * 7 * 7 * 6 * 2 * 3)
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

describe('a verdict contradicts no fact', () => {
  const waiting: Signs = {
    ...healthy,
    ...{ intent: 'pending', consumer: 'silent', projection: 'behind', read: 'behind', late: true },
  }

  test('it tells a destination that is away from a relay that is', () => {
    expect(judgePublication(waiting)).toMatchObject({ symptom: 'intent-overdue', cause: 'relay-late' })
    expect(judgePublication({ ...waiting, destination: 'unknown' }).cause).toBe('relay-late')
    expect(judgePublication({ ...waiting, destination: 'down' })).toMatchObject({
      ...{ state: 'intent-pending', symptom: 'intent-overdue', cause: 'destination-down', owner: 'relay' },
    })
  })

  /** What is said of an intent, whatever the other signs are. */
  const saidOf = (intent: Signs['intent']) => {
    const said = new Set<string>()
    for (const signs of combinations()) {
      const { cause, symptom } = judgePublication(signs)
      if (signs.intent === intent) said.add([signs.late ? 'late' : 'in time', cause, symptom].join(' '))
    }
    return [...said]
  }

  test('it says of what a consumer has that it was handed over, whatever the relay recorded', () => {
    expect(saidOf('unrecorded')).toEqual(['in time not-recorded ', 'late not-recorded intent-overdue'])
  })

  test('it finds nothing wrong with a dead letter whose place a newer revision has taken', () => {
    expect(saidOf('passed')).toEqual(['in time dead-overtaken ', 'late dead-overtaken '])
  })

  test('it calls no revision visible of which only the number is known', () => {
    const gone: Signs = {
      ...{ ...healthy, source: 'newer', intent: 'aged-out', consumer: 'silent', projection: 'newer' },
      late: true,
    }
    expect(judgePublication(gone)).toMatchObject({
      state: 'unknown',
      symptom: null,
      cause: 'older-than-retention',
    })
    for (const evidence of [
      { source: 'here', consumer: 'applied' },
      { consumer: 'applied' },
      { consumer: 'stale' },
    ] as const)
      expect(judgePublication({ ...gone, ...evidence }).state).toBe('projection-current')
  })
})

describe('the verdict about an event without a revision', () => {
  const event: Signs = {
    ...{ source: 'unconfigured', intent: 'relayed', consumer: 'unconfigured', projection: 'unconfigured' },
    ...{ destination: 'unknown', read: 'unconfigured', late: false, twice: 'no' },
  }

  test('is that of a publication up to the relay, and claims nothing beyond the consumers', () => {
    // Below no newer revision, so never one that retention may have removed.
    for (const intent of signWords.intent.filter((word) => word !== 'aged-out'))
      for (const consumer of signWords.consumer)
        for (const late of signWords.late) {
          const signs = { ...event, intent, consumer, late }
          const verdict = judgeEvent(signs)
          expect(verdict.cause).not.toBe('no-rule')
          expect(verdict.state).not.toBe('projection-current')
          if (intent !== 'relayed') expect(verdict).toEqual(judgePublication(signs))
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
