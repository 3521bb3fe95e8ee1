import { describe, expect, test } from 'vitest'
import { createPublication } from '../../src/publications/publication.ts'
import { stepsOf } from '../../src/publications/timeline.ts'
import { tracePublication } from '../../src/publications/trace.ts'
import {
  answers,
  consumed,
  database,
  projected,
  publications,
  relay,
  save,
  sources,
  trace,
} from './fixtures/notes.ts'

describe('a trace', () => {
  test('of a revision that was saved without an intent', async () => {
    await save('old-path', 3, { withIntent: false })
    const found = await trace('old-path')
    expect(found).toMatchObject({
      revision: '3',
      verdict: {
        state: 'note-only',
        symptom: 'intent-missing',
        cause: 'no-intent',
        owner: 'service',
        team: null,
      },
      answers: { canonicalRevision: 'table notes: 3', intent: null, repeatKey: null },
    })
    expect(found.verdict.command).toBe('waybill intent create note old-path 3 --reason "…"')
  })

  test('of an intent that waits for the relay says what the write API answered, and nothing of loss', async () => {
    await save('n-42', 7)
    const found = await trace('n-42', '007')
    expect(found).toMatchObject({
      ...{ intentKey: 'n-42:7', configured: true },
      verdict: { state: 'intent-pending', symptom: null, owner: 'relay', team: 'platform' },
      facts: {
        source: { status: 'known', value: { holdsRevision: true, newestRevision: '7' } },
        intent: {
          status: 'known',
          value: { headRevision: '7', row: { state: 'pending', operationId: null } },
        },
        answer: { status: 'known', value: { operationId: 'save-n-42' } },
        commit: { status: 'known', value: { exact: true } },
      },
      answers: { repeatKey: 'n-42:7' },
    })
  })

  test('of one that was handed over follows it to the reader', async () => {
    await save('way', 1)
    await relay()
    expect((await trace('way')).verdict).toMatchObject({ state: 'intent-relayed', cause: 'no-receipt-yet' })
    await consumed('way', 1)
    expect((await trace('way')).verdict).toMatchObject({ symptom: 'projection-old', owner: 'projection' })
    expect(stepsOf(await trace('way')).at(-1)).toMatchObject({ who: 'read public list', text: 'HTTP 404' })
    await projected('way', 1)
    expect((await trace('way')).verdict).toMatchObject({
      symptom: 'public-read-old',
      owner: 'read',
      team: 'web team',
    })
    answers.set('way', { body: '{"revision": 0}', headers: { age: '300', 'cache-control': 'max-age=600' } })
    expect((await trace('way')).verdict).toMatchObject({ symptom: 'public-read-old', cause: 'cached' })
    answers.set('way', { body: '{"revision": 1}' })
    const found = await trace('way')
    expect(found.verdict).toMatchObject({ state: 'projection-current', symptom: null, owner: null })
    expect(found.answers).toEqual({
      canonicalRevision: 'table notes: 1',
      intent: expect.stringMatching(/^way:1 is published, event /),
      repeatKey: 'way:1',
      confirmedRevision: '1',
      publicRead: 'public list: 1',
    })
    expect(found.gaps).toEqual([])
    expect(stepsOf(found).map(({ who, tone }) => `${who}: ${tone}`)).toEqual([
      ...['source: good', 'intent: good', 'commit: quiet', 'write API: quiet', 'relay: open', 'relay: good'],
      ...['consumer public-list: good', 'projection public_notes: good', 'read public list: good'],
    ])
  })

  test('of one that a consumer rejected, or applied twice, or parked', async () => {
    for (const [id, result, cause] of [
      ['refused', 'rejected', 'consumer-rejected'],
      ['waiting', 'parked', 'parked-behind-gap'],
    ] as const) {
      await save(id, 2)
      await relay()
      await consumed(id, 2, result)
      expect((await trace(id)).verdict).toMatchObject({ symptom: 'projection-old', cause, owner: 'consumer' })
    }
    await save('double', 2)
    await relay()
    await consumed('double', 2)
    await consumed('double', 2, 'applied', 'again')
    await projected('double', 2)
    answers.set('double', { body: '{"revision": 2}' })
    expect((await trace('double')).verdict).toMatchObject({ symptom: 'applied-twice', owner: 'consumer' })
  })

  test('of one behind a gap leads to the missing one, and tells what a release skipped', async () => {
    await save('behind-gap', 4)
    await relay()
    await consumed('behind-gap', 4, 'parked')
    await projected('behind-gap', 1)
    const { verdict } = await trace('behind-gap')
    expect(verdict).toMatchObject({ cause: 'parked-behind-gap', command: 'waybill trace note behind-gap 2' })
    expect(verdict.action).toContain('waybill consumer release')
    await database.query(
      `UPDATE "waybill".projection_revisions SET revision = 3, event_id = '' WHERE aggregate_id = 'behind-gap'`,
    )
    const skipped = await trace('behind-gap', '3')
    expect(skipped.signs.projection).toBe('missing')
    expect(skipped.facts.projections[0]!.fact).toMatchObject({ value: { revision: null, skippedTo: '3' } })
    expect(stepsOf(skipped).find(({ who }) => who === 'projection public_notes')!.text).toBe(
      'released from waiting up to revision 3',
    )
  })

  test('takes what cannot be looked up for a gap, each by itself', async () => {
    await save('gaps', 1)
    await relay()
    answers.set('gaps', { status: 302, headers: { location: '/login' }, body: '' })
    const broken = new Map([
      [
        'note',
        createPublication('note', {
          source: { table: 'no_such_table', id: 'id', revision: 'revision', keeps: 'latest' },
          pendingLimitSeconds: 30,
          ...{ owners: {}, projections: [], consumers: [] },
          reads: publications.get('note')!.reads,
        }),
      ],
    ])
    const found = await tracePublication(sources, broken, { type: 'note', id: 'gaps', revision: '1' })
    expect(found.verdict).toMatchObject({ state: 'intent-relayed', symptom: null, cause: 'consumer-unknown' })
    expect(found.gaps.map(({ name }) => name)).toEqual([
      ...['source', 'consumer', 'projection', 'revision in public read public list'],
    ])
    expect(found.gaps[0]!.reason).toContain('no_such_table')
    expect(stepsOf(found)[0]).toMatchObject({ who: 'source', known: false, at: null, tone: 'open' })
  })

  test('of an aggregate that nobody knows says so; odd ids and revisions are what they are', async () => {
    await expect(trace('nobody')).rejects.toMatchObject({ code: 'REVISION_UNKNOWN' })
    const id = `a:b/c d%'"😀`
    await save(id, 10)
    await expect(trace(id, '-1')).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    await expect(trace(id, '1e3')).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    expect((await trace(id, '9')).verdict).toMatchObject({
      state: 'unknown',
      symptom: null,
      cause: 'overtaken',
    })
    expect((await trace(id, '10')).verdict.state).toBe('intent-pending')
    expect((await trace(id, '9007199254740993')).verdict.state).toBe('not-saved')
  })
})
