import { describe, expect, test } from 'vitest'
import { createIntent, replay } from '../../src/publications/decisions.ts'
import { consumed, database, publications, relay, save, sources, trace } from './fixtures/notes.ts'

const note = () => publications.get('note')!
const key = (id: string, revision: number, scope = '') => ({
  type: 'note',
  id,
  revision: BigInt(revision),
  scope,
})
const decisions = (id: string) =>
  database.rows(
    'SELECT action, decided_by, reason FROM "waybill".decisions WHERE aggregate_id = $1 ORDER BY decided_at',
    [id],
  )
const events = (id: string) =>
  database.rows(
    'SELECT id, payload::text, revision::int FROM "waybill".outbox_events WHERE aggregate_id = $1',
    [id],
  )
const why = { reason: 'the old path forgot it', by: 'on call' }

describe('an intent that is missing', () => {
  test('is no ground for a replay, and is created by decision from the row of the source', async () => {
    await save('lost', 7, { withIntent: false })
    await expect(replay(sources.outbox, note(), key('lost', 7), why)).rejects.toMatchObject({
      code: 'ACTION_REFUSED',
      message: expect.stringContaining('has no intent, and a replay creates none'),
    })
    expect(await events('lost')).toEqual([])
    const made = await createIntent(sources.outbox, note(), key('lost', 7), why)
    expect(made.intentKey).toBe('lost:7')
    expect(await events('lost')).toEqual([
      { id: made.eventId, payload: '{"id": "lost", "body": "text"}', revision: 7 },
    ])
    expect(await decisions('lost')).toEqual([
      { action: 'intent created', decided_by: 'on call', reason: why.reason },
    ])
    expect((await trace('lost')).verdict.state).toBe('intent-pending')
    await relay()
    expect((await trace('lost')).facts.decisions).toMatchObject({ value: [{ action: 'intent created' }] })
  })

  test('is not created twice, nor for what is not saved, nor below a newer one, nor without a reason', async () => {
    await save('there', 2)
    const create = (id: string, revision: number, reason = 'because') =>
      createIntent(sources.outbox, note(), key(id, revision), { reason })
    await expect(create('there', 2)).rejects.toThrow('has an intent already')
    await expect(create('there', 1)).rejects.toThrow('revision 2 of note "there" was published already')
    await expect(create('there', 3)).rejects.toThrow('does not hold revision 3')
    await expect(create('nowhere', 1)).rejects.toThrow('does not hold revision 1')
    await expect(create('there', 2, ' ')).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    await expect(createIntent(sources.outbox, null, key('there', 9), why)).rejects.toThrow(
      'an intent needs an event type',
    )
    expect(await decisions('there')).toEqual([])
  })

  test('is created once when two decide at the same moment', async () => {
    await save('race', 1, { withIntent: false })
    const both = await Promise.allSettled(
      [1, 2].map(() => createIntent(sources.outbox, note(), key('race', 1), why)),
    )
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(await events('race')).toHaveLength(1)
    expect(await decisions('race')).toHaveLength(1)
  })
})

describe('a replay', () => {
  test('is asked for once: while it is open a second one is refused', async () => {
    await save('again', 4)
    await expect(replay(sources.outbox, note(), key('again', 4), why)).rejects.toThrow(
      'is pending, so there is nothing',
    )
    await relay()
    const made = await replay(sources.outbox, note(), key('again', 4), why)
    expect(made).toMatchObject({ intentKey: 'again:4', number: 1 })
    await expect(replay(sources.outbox, note(), key('again', 4), why)).rejects.toThrow('is open still')
    expect(await decisions('again')).toEqual([
      { action: 'replayed', decided_by: 'on call', reason: why.reason },
    ])
  })

  test('of an older revision than readers see needs a word more', async () => {
    await save('older', 1)
    await relay()
    await consumed('older', 1)
    const options = { ...why, visibleRevision: 2n }
    await expect(replay(sources.outbox, note(), key('older', 1), options)).rejects.toThrow('--allow-older')
    await replay(sources.outbox, note(), key('older', 1), { ...options, allowOlder: true })
  })
})
