import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { discardDeadLetters, retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { auditPublication } from '../../src/publications/audit.ts'
import { createPublication } from '../../src/publications/publication.ts'
import { stepsOf } from '../../src/publications/timeline.ts'
import { tracePublication } from '../../src/publications/trace.ts'
import {
  answers,
  consumed,
  database,
  note,
  projected,
  publications,
  relay,
  save,
  sources,
  trace,
} from './fixtures/notes.ts'

// What trace concludes contradicts none of its own facts, nor the audit, and its command is not refused.

beforeEach(async () => {
  await database.query(
    `TRUNCATE notes, "waybill".outbox_events, "waybill".publication_heads, "waybill".replays, "waybill".decisions,
       "waybill".processed_events, "waybill".projection_revisions, "waybill".outbox_relays`,
  )
  answers.clear()
})

const change = (set: string, id: string, revision: number) =>
  database.query(`UPDATE "waybill".outbox_events SET ${set} WHERE aggregate_id = $1 AND revision = $2`, [
    id,
    revision,
  ])
const old = "created_at = now() - interval '1 hour'"
const audit = async () => auditPublication(sources, publications.get('note')!)

describe('a dead letter', () => {
  const die = 'dead_at = now(), last_attempt_at = now(), last_error = $$413$$'

  test('is not called pending, and may be retried as the command says', async () => {
    await save('huge', 1)
    await change(die, 'huge', 1)
    const { verdict } = await trace('huge', '1')
    expect(verdict).toMatchObject({
      ...{ state: 'intent-dead', symptom: 'intent-overdue', cause: 'dead-letter' },
      command: expect.stringMatching(/^waybill dead retry /) as string,
    })
    expect(verdict.symptomText).not.toContain('pending')
    const { changed } = await retryDeadLetters(sources.outbox.db, sources.outbox.schema, {
      ids: [verdict.command.split(' ').at(-1)!],
    })
    expect(changed).toBe(1)
  })

  test('that a newer revision has overtaken is no symptom, and no retry is offered that would be refused', async () => {
    await save('huge', 1)
    await change(die, 'huge', 1)
    await save('huge', 2)
    await relay()
    await consumed('huge', 2)
    await projected('huge', 2)
    const { verdict, signs } = await trace('huge', '1')
    expect(signs.intent).toBe('passed')
    expect(verdict).toMatchObject({ state: 'intent-dead', symptom: null, cause: 'dead-overtaken' })
    expect((await audit()).symptoms).toEqual({})
    const [, id] = /^waybill dead discard (\S+) --reason "…"$/.exec(verdict.command)!
    const { db, schema } = sources.outbox
    await expect(retryDeadLetters(db, schema, { ids: [id!] })).rejects.toMatchObject({
      code: 'ACTION_REFUSED',
    })
    expect((await discardDeadLetters(db, schema, { ids: [id!], reason: 'too large' })).changed).toBe(1)
  })

  test('is told so where a history is audited, and where no head knows of the newer one', async () => {
    await save('huge', 1)
    await change(die, 'huge', 1)
    await save('huge', 2)
    await relay()
    await consumed('huge', 2)
    await projected('huge', 2)
    // A writer held the head at the moment of the mark.
    await database.query('UPDATE "waybill".publication_heads SET relayed_at = NULL, relayed_revision = NULL')
    expect((await trace('huge', '1')).signs.intent).toBe('passed')
    await database.query('CREATE TABLE IF NOT EXISTS versions (id text, revision int)')
    await database.query("INSERT INTO versions VALUES ('huge', 1), ('huge', 2)")
    const history = createPublication('note', {
      ...note,
      source: { ...note.source, table: 'versions', keeps: 'history' },
    })
    expect(await auditPublication(sources, history)).toMatchObject({ checked: 2, symptoms: {} })
  })
})

describe('a command that would be refused', () => {
  test('is not offered: a replay while one is open, or of what is not left', async () => {
    await save('refused', 1)
    await relay()
    await consumed('refused', 1, 'rejected')
    expect((await trace('refused')).verdict.command).toBe('waybill replay note refused 1 --reason "…"')
    await database.query(
      `INSERT INTO "waybill".replays (event_id, number, requested_by, reason)
       SELECT id, 1, 'on call', 'mended' FROM "waybill".outbox_events`,
    )
    expect((await trace('refused')).verdict.command).toBe('waybill trace note refused 1')
    await database.query('TRUNCATE "waybill".replays')
    await database.query('DELETE FROM "waybill".outbox_events')
    expect((await trace('refused')).verdict).toMatchObject({
      ...{ state: 'intent-relayed', cause: 'consumer-rejected', command: 'waybill trace note refused 1' },
    })
  })

  test('is not offered: an intent below a newer one, or without the type that it needs', async () => {
    await save('lost', 1, { withIntent: false })
    const bare = createPublication('note', { ...note, intent: undefined })
    const request = { type: 'note', id: 'lost', revision: '1' }
    const { verdict } = await tracePublication(sources, new Map([['note', bare]]), request)
    expect(verdict.command).toBe('waybill intent create note lost 1 --reason "…" --type "…" --payload "…"')
    await save('lost', 2)
    await database.query("UPDATE notes SET revision = 1 WHERE id = 'lost'")
    expect((await trace('lost', '1')).verdict).toMatchObject({
      ...{ symptom: 'intent-missing', command: 'waybill trace note lost 2' },
    })
  })
})

describe('what was handed over and not recorded', () => {
  test.each([
    ['a consumer', () => consumed('late', 1)],
    ['a projection', () => projected('late', 1)],
  ])('is not told as if the relay had not handed it over, when %s has it', async (_, arrive) => {
    await save('late', 1)
    await arrive()
    expect((await trace('late')).verdict).toMatchObject({ symptom: null, cause: 'not-recorded' })
    await change(old, 'late', 1)
    const found = await trace('late')
    expect(found.verdict).toMatchObject({
      ...{ state: 'intent-pending', symptom: 'intent-overdue', cause: 'not-recorded', owner: 'relay' },
      causeText: expect.stringMatching(/^It was handed over/) as string,
    })
    expect((await audit()).symptoms).toMatchObject({
      'intent-overdue': { count: 1, first: [{ cause: 'not-recorded' }] },
    })
  })
})

describe('a destination that is away', () => {
  const tell = (destinations: object, expires = "now() + interval '1 hour'") =>
    database.query(
      `INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, info)
       VALUES ($1, 'box', 42, '0.1.0', ${expires}, $2)`,
      [randomUUID(), JSON.stringify({ destinations })],
    )
  const since = '2026-03-01T10:00:00Z'
  const down = { state: 'down', since, error: 'connect ECONNREFUSED' }

  test('is the cause of what waits, in trace and audit, with what the relays say', async () => {
    await save('waits', 1)
    await change(old, 'waits', 1)
    await tell({ bus: down }, "now() - interval '1 second'")
    expect((await trace('waits')).verdict.cause).toBe('relay-late')
    await tell({ bus: { state: 'up' } })
    expect((await trace('waits')).verdict.cause).toBe('relay-late')
    await tell({ bus: down })
    const found = await trace('waits')
    expect(found).toMatchObject({
      signs: { destination: 'down' },
      verdict: {
        symptom: 'intent-overdue',
        cause: 'destination-down',
        owner: 'relay',
        command: 'waybill status',
      },
    })
    expect(stepsOf(found)).toContainEqual(
      expect.objectContaining({
        ...{
          who: 'relay',
          at: since,
          text: 'the destination bus is down: connect ECONNREFUSED',
          tone: 'bad',
        },
      }),
    )
    expect((await audit()).symptoms['intent-overdue']!.first[0]!.cause).toBe('destination-down')
  })

  test('is no cause while another works, and no matter of what was handed over', async () => {
    await tell({ bus: down, list: { state: 'up', since, error: null } })
    await save('waits', 1)
    await change(old, 'waits', 1)
    const found = await trace('waits')
    expect(found.verdict.cause).toBe('relay-late')
    expect(stepsOf(found).map(({ text }) => text)).toContain(
      'the destination bus is down: connect ECONNREFUSED',
    )
    await database.query('TRUNCATE "waybill".outbox_relays')
    await relay()
    await tell({ bus: down })
    expect(
      stepsOf(await trace('waits'))
        .map(({ text }) => text)
        .join(),
    ).not.toContain('is down')
  })

  test.each([[{}], [{ destinations: 7 }], [{ destinations: { a: 'x' } }], [[]]])(
    'is not read into the info %j of another version',
    async (info) => {
      await save('waits', 1)
      await database.query(
        `INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, info)
         VALUES ($1, 'box', 42, '0.1.0', now() + interval '1 hour', $2)`,
        [randomUUID(), JSON.stringify(info)],
      )
      expect((await trace('waits')).signs.destination).toBe('unknown')
    },
  )
})

describe('late', () => {
  const green = async () => {
    await save('green', 1)
    await relay()
    await consumed('green', 1)
    await projected('green', 1)
    answers.set('green', { body: '{"revision": 1}' })
  }

  test('is what took too long to be handed over, not what was handed over long ago', async () => {
    await green()
    const long = "interval '1 hour'"
    await change(`created_at = created_at - ${long}, processed_at = processed_at - ${long}`, 'green', 1)
    expect(await trace('green')).toMatchObject({ verdict: { cause: 'visible' }, signs: { late: false } })
    await change(`processed_at = processed_at + ${long}`, 'green', 1)
    expect((await trace('green')).signs.late).toBe(true)
  })

  test('is by its age what waits: for the relay, or for a consumer', async () => {
    await save('waits', 1)
    expect((await trace('waits')).signs.late).toBe(false)
    await relay()
    await change(
      "created_at = created_at - interval '1 hour', processed_at = processed_at - interval '1 hour'",
      'waits',
      1,
    )
    expect(await trace('waits')).toMatchObject({ signs: { late: true }, verdict: { cause: 'no-receipt' } })
    expect((await audit()).symptoms['projection-old']!.first[0]!.cause).toBe('no-receipt')
  })
})

test('an answer of the write API that a newer revision has replaced is not called "not recorded"', async () => {
  await save('n-42', 1)
  await save('n-42', 2)
  const reasons = async (revision: string) =>
    (await trace('n-42', revision)).gaps
      .filter(({ name }) => name.startsWith('answer'))
      .map(({ reason }) => reason)
  expect(await reasons('1')).toEqual(['kept for the newest revision only, which is 2'])
  expect(await reasons('2')).toEqual([])
  await database.query('UPDATE "waybill".publication_heads SET answered_at = NULL')
  expect(await reasons('2')).toEqual(['not recorded'])
})

describe('a revision without a row', () => {
  test('is not called visible when nothing says that it ever was', async () => {
    await save('n-42', 7)
    await relay()
    await consumed('n-42', 7)
    await projected('n-42', 7)
    answers.set('n-42', { body: '{"revision": 7}' })
    for (const revision of ['0', '6'])
      expect((await trace('n-42', revision)).verdict).toMatchObject({
        ...{ state: 'unknown', symptom: null, cause: 'older-than-retention', owner: null },
      })
    await consumed('n-42', 6)
    expect((await trace('n-42', '6')).verdict.state).toBe('projection-current')
    // The newest one, after retention.
    await database.query('DELETE FROM "waybill".outbox_events')
    expect(await trace('n-42', '7')).toMatchObject({
      ...{ signs: { intent: 'relayed', late: false }, verdict: { state: 'projection-current' } },
    })
  })

  test('that a history does not hold is not called overtaken', async () => {
    await database.query('CREATE TABLE IF NOT EXISTS versions (id text, revision int)')
    await database.query("INSERT INTO versions VALUES ('hole', 1), ('hole', 3)")
    const history = createPublication('note', {
      ...note,
      source: { ...note.source, table: 'versions', keeps: 'history' },
    })
    const request = { type: 'note', id: 'hole', revision: '2' }
    expect(await tracePublication(sources, new Map([['note', history]]), request)).toMatchObject({
      ...{ signs: { source: 'missing' }, verdict: { state: 'not-saved', cause: 'not-saved' } },
    })
  })
})
