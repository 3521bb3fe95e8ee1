import { writeFile } from 'node:fs/promises'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { createCli, temporaryFolder } from './cli.ts'

let database: TestDatabase
let waybill: ReturnType<typeof createCli>

beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(
    'CREATE TABLE public.notes (id text PRIMARY KEY, revision integer NOT NULL, body text)',
  )
  await database.query(`INSERT INTO public.notes VALUES ('n-42', 7, 'text'), ('a:b c''d', 2, 'text')`)
  const cwd = await temporaryFolder()
  await writeFile(
    join(cwd, 'waybill.config.json'),
    JSON.stringify({
      destinations: { out: { type: 'stdout' } },
      publications: {
        note: {
          source: { table: 'public.notes' },
          intent: { eventType: 'note.published', payload: `jsonb_build_object('id', id, 'body', body)` },
          owners: { service: 'editors' },
        },
      },
    }),
  )
  waybill = createCli(cwd, database)
})

describe('publications on the command line', () => {
  test('tell the story of a note without an intent, up to the decision and a replay', async () => {
    const audit = await waybill(['audit'])
    expect(audit.code).toBe(1)
    expect(audit.stdout).toContain('intent-missing, the canonical revision is there, the intent is not: 2')
    expect(audit.stdout).toContain('n-42 7, no-intent')

    const trace = await waybill(['trace', 'note', 'n-42', '7'])
    expect(trace.code).toBe(0)
    expect(trace.stdout).toMatch(/state +note-only/)
    expect(trace.stdout).toMatch(/symptom +intent-missing: the canonical revision is there/)
    expect(trace.stdout).toMatch(/cause +no-intent: The revision was saved without/)
    expect(trace.stdout).toMatch(/owner +service \(editors\)/)
    expect(trace.stdout).toContain('waybill intent create note n-42 7 --reason "…"')
    expect(Math.max(...trace.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)

    const refused = await waybill(['replay', 'note', 'n-42', '7', '--reason', 'hurry'])
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toMatch(/^waybill: n-42:7 has no intent, and a replay creates none: [^\n]+\n$/)

    const created = await waybill(['intent', 'create', 'note', 'n-42', '7', '--reason', 'old path', '--json'])
    expect([created.code, created.json().intentKey]).toEqual([0, 'n-42:7'])
    const delivered = await waybill(['relay', '--once'])
    expect(delivered.code).toBe(0)
    expect(delivered.stdout).toContain('"body": "text"')
    const replayed = await waybill(['replay', 'note', 'n-42', '7', '--reason', 'it was lost there'])
    expect(replayed.stdout).toMatch(/^n-42:7 goes out again, as replay 1 of event /)
    expect((await waybill(['replay', 'note', 'n-42', '7', '--reason', 'again'])).code).toBe(1)
    const repeated = await waybill(['relay', '--once'])
    expect(repeated.stdout).toContain('"replay":')

    const traced = await waybill(['trace', created.json().eventId, '--json'])
    expect(traced.json()).toMatchObject({
      verdict: { state: 'intent-relayed' },
      facts: { replays: { value: [{ number: 1, state: 'relayed' }] } },
    })
    const decisions = await waybill(['decisions', '--json'])
    expect(decisions.json().items.map((item: { action: string }) => item.action)).toEqual([
      ...['replayed', 'intent created'],
    ])
    expect((await waybill(['audit', '--json'])).json().publications[0].symptoms['intent-missing'].count).toBe(
      1,
    )
  })

  test('show how far an event without a revision has come, without any configuration of its type', async () => {
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       VALUES ('order', 'o-1', 'order.created', '{}')`,
    )
    const byAggregate = await waybill(['trace', 'order', 'o-1'])
    expect([byAggregate.code, byAggregate.stderr]).toEqual([0, ''])
    expect(byAggregate.stdout).toMatch(
      /^order o-1, event without a revision\nThe event has no revision and no publication "order" is configured: its/,
    )
    expect(byAggregate.stdout).toMatch(/\n {2}event +order\.created, pending, event\n/)
    expect(byAggregate.stdout).toMatch(/state +intent-pending\n/)
    expect(byAggregate.stdout).not.toContain('five questions')
    expect(Math.max(...byAggregate.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
    expect((await waybill(['relay', '--once'])).code).toBe(0)
    const { event } = (await waybill(['trace', 'order', 'o-1', '--json'])).json()
    const byId = (await waybill(['trace', event.id, '--json'])).json()
    expect(byId).toMatchObject({
      ...{ aggregate: { type: 'order', id: 'o-1' }, revision: null, intentKey: null, event },
      verdict: { state: 'intent-relayed', cause: 'consumer-unknown', command: `waybill trace ${event.id}` },
    })
  })

  test.each([
    [['trace', 'note', 'nobody'], 1, 'no revision of note "nobody" is known'],
    [['trace', 'note', 'n-42', '1e3'], 2, 'expected a revision to be an integer'],
    [
      ['trace', 'note'],
      2,
      'expected an aggregate type, an id and mostly a revision ("waybill trace note n-42 7"), or the id of an event, which is a UUID; got "note" alone',
    ],
    [['trace', 'note', '-x', '1'], 2, 'a word that begins with "-" goes after "--"'],
    [['audit', 'nope'], 2, 'waybill audit takes no words, only options: --publication <name>, --reads; see'],
    [
      ['intent', 'create', 'note', 'n-42', '7', '--reason', '…'],
      2,
      'a reason is needed: say in a few words why',
    ],
    [['replay', 'note', 'n-42', '7', '--reason', ' ... '], 2, 'a reason is needed: say in a few words why'],
    [['audit', '--publication', 'nots'], 2, 'unknown publication "nots", did you mean "note"?'],
    [['replay', 'note', 'n-42', '7'], 2, '--reason'],
    [['intent', 'create', 'note', 'n-42', '9', '--reason', 'x'], 1, 'does not hold revision 9'],
  ])('answer %j with %i', async (args, code, message) => {
    const answer = await waybill(args)
    expect(answer.code).toBe(code)
    expect(answer.stderr).toContain(message)
  })

  test('say with 1 that nobody knows of an aggregate, also when its revision is named', async () => {
    for (const [type, told] of [
      ['nope', 'There is no publication "nope" in the configuration'],
      ['note', 'not-saved: The source does not hold this revision'],
    ] as const) {
      const { code, stdout } = await waybill(['trace', type, 'nobody', '1'])
      expect(code).toBe(1)
      expect(stdout.replaceAll(/\s+/g, ' ')).toContain(told)
    }
  })

  test.each([`a:b c'd`, '-x', '--all', '=ls', '$HOME', '~', '-n "o"'])(
    'name a command that a shell takes as it stands, for the id %s',
    async (id) => {
      await database.query('INSERT INTO public.notes VALUES ($1, 2) ON CONFLICT DO NOTHING', [id])
      const { command } = (await waybill(['trace', '--json', '--', 'note', id, '2'])).json().verdict
      expect(command).toMatch(/^waybill intent create /)
      // A shell takes the words apart; the dots alone are no reason.
      const words = (line: string) =>
        execFileSync('sh', ['-c', `for word in ${line}; do printf '%s\\0' "$word"; done`])
          .toString()
          .split('\0')
          .slice(1, -1)
      expect((await waybill(words(command))).code).toBe(2)
      const created = await waybill(
        words(`${command.replace('…', 'an old path')}`.replace('waybill ', 'waybill --json ')),
      )
      expect(created.json().intentKey).toBe(`${id}:2`)
      const looking = (await waybill(['trace', '--json', '--', 'note', id, '2'])).json().verdict.command
      expect((await waybill(words(looking))).stdout).toContain('intent-pending')
    },
  )
})
