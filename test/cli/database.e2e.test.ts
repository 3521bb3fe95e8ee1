import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { type TestDatabase, createTestDatabase, untilOneWaits } from '../support/postgres.ts'
import { projectFolder, startCli, startProcess, variablesOf } from '../support/processes.ts'
import { asDefault, testSchema } from '../support/target.ts'
import { createCli, temporaryFolder } from './cli.ts'

const cwd = await temporaryFolder()

interface Row {
  type?: string
  aggregate?: readonly [string, string]
  dead?: string
  published?: boolean
  holds?: boolean
}

async function insert(database: TestDatabase, rows: readonly Row[]): Promise<string[]> {
  const ids: string[] = []
  for (const {
    type = 'order.created',
    aggregate = ['order', 'o-1'],
    dead,
    published,
    holds = false,
  } of rows) {
    const id = randomUUID()
    ids.push(id)
    await database.query(
      `INSERT INTO "waybill".outbox_events
         (id, aggregate_type, aggregate_id, event_type, payload, attempts, last_attempt_at, last_error, dead_at, holds, processed_at)
       VALUES ($1, $2, $3, $4, '{"secret": "payload"}', $5::int, CASE WHEN $6::text IS NOT NULL THEN now() END, $6,
               CASE WHEN $6::text IS NOT NULL THEN now() END, $7, CASE WHEN $8 THEN now() - interval '30 days' END)`,
      [
        id,
        aggregate[0],
        aggregate[1],
        type,
        dead === undefined ? 0 : 8,
        dead ?? null,
        holds,
        published === true,
      ],
    )
  }
  return ids
}

describe('migrate', () => {
  test('brings an empty database to the newest version, and finds nothing to do then', async () => {
    const waybill = createCli(cwd, await createTestDatabase({ migrated: false }))
    const dry = await waybill(['migrate', '--dry-run'])
    expect(asDefault(dry.stdout)).toMatch(
      /would go up: 0001 initial\n(.*\n)*the schema "waybill" would be at version \d+, now it is at 0; nothing was changed\n$/,
    )
    const status = await waybill(['status'])
    expect(status.code).toBe(1)
    expect(asDefault(status.stderr)).toBe(
      'waybill: the schema "waybill" is not migrated, run "waybill migrate"\n',
    )
    const first = await waybill(['migrate'])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(asDefault(first.stdout)).toMatch(
      /went up: 0001 initial\n(.*\n)*the schema "waybill" is now at version \d+, it was at 0\n$/,
    )
    const again = await waybill(['migrate', '--json'])
    expect(again.json()).toMatchObject({ schema: testSchema, steps: [], applied: false })
    expect((await waybill(['status'])).code).toBe(0)
  })

  test('eight at once make one schema, with any name', async () => {
    const database = await createTestDatabase({ migrated: false })
    const waybill = createCli(cwd, database)
    const args = ['migrate', '--json', '--schema', 'My"Schema; --']
    const results = await Promise.all(Array.from({ length: 8 }, () => waybill(args)))
    expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array.from({ length: 8 }, () => ({ code: 0, stderr: '' })),
    )
    expect(results.filter((result) => result.json().applied)).toHaveLength(1)
    expect((await waybill(['status', '--schema', 'My"Schema; --'])).code).toBe(0)
  })

  test('--print gives SQL that makes the same schema, without a database at hand', async () => {
    const database = await createTestDatabase({ migrated: false })
    const printed = await createCli(cwd)(['migrate', '--print', '--schema', 'printed'])
    expect(printed).toMatchObject({ code: 0, stderr: '' })
    await database.client.query(printed.stdout)
    const waybill = createCli(cwd, database)
    expect((await waybill(['migrate', '--schema', 'printed', '--json'])).json()).toMatchObject({ steps: [] })
  })

  test('--to goes back and forth, and refuses a version that does not exist', async () => {
    const waybill = createCli(cwd, await createTestDatabase())
    expect((await waybill(['migrate', '--to', '0', '--json'])).json()).toMatchObject({ to: 0, applied: true })
    expect((await waybill(['status'])).code).toBe(1)
    expect((await waybill(['migrate', '--to', '99'])).code).toBe(2)
    expect((await waybill(['migrate'])).code).toBe(0)
  })

  test('a schema that is newer than the program is refused by every command', async () => {
    const database = await createTestDatabase()
    await database.query('UPDATE "waybill".schema_version SET version = version + 1')
    const waybill = createCli(cwd, database)
    for (const args of [['migrate'], ['status'], ['list'], ['dead', 'retry', '--all'], ['prune']]) {
      const { code, stdout, stderr } = await waybill(args)
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(asDefault(stderr)).toMatch(
        /^waybill: the schema "waybill" is at version \d+, newer than the \d+ this program knows: upgrade waybill\n$/,
      )
    }
  })

  test('a database that does not exist is exit code 3', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, `${database.url}_not`)
    expect(await waybill(['migrate'])).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/does not exist\n$/),
    })
  })
})

describe('list', () => {
  const odd = ['a:b/c*', ' two  spaces ', '🦊', '-5', '--all', 'x'.repeat(255), 'o\'"\\']

  test('shows events in the order of position, filtered and page by page', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, database)
    const ids = await insert(database, [
      {},
      { type: 'order.paid', published: true },
      { aggregate: ['invoice', 'i-1'], dead: 'HTTP 400' },
      { aggregate: ['invoice', 'i-1'] },
    ])
    const all = (await waybill(['list', '--json'])).json()
    expect(all.items.map(({ id }: { id: string }) => id)).toEqual(ids)
    expect(all.next).toBeNull()
    expect(all.items[0]).toMatchObject({ state: 'pending', position: expect.any(String), attempts: 0 })
    const idsOf = async (...args: string[]) =>
      (await waybill(['list', '--json', ...args]))
        .json()
        .items.map(({ id }: { id: string }) => ids.indexOf(id))
    expect(await idsOf('--state', 'published')).toEqual([1])
    expect(await idsOf('--state', 'pending,dead')).toEqual([0, 2, 3])
    expect(await idsOf('--state', 'published', '--state', 'dead')).toEqual([1, 2])
    expect(await idsOf('--type', 'order.paid')).toEqual([1])
    expect(await idsOf('--aggregate', 'invoice', 'i-1', '--state', 'dead')).toEqual([2])

    const first = (await waybill(['list', '--json', '--limit', '3'])).json()
    expect(first.items).toHaveLength(3)
    const second = (await waybill(['list', '--json', '--limit', '3', '--after', first.next])).json()
    expect(second).toMatchObject({ items: [{ id: ids[3] }], next: null })
    expect(await waybill(['list', '--after', 'nonsense'])).toMatchObject({ code: 2, stdout: '' })

    const newest = (await waybill(['list', '--json', '--newest', '--limit', '3'])).json()
    expect(newest.items.map(({ id }: { id: string }) => ids.indexOf(id))).toEqual([3, 2, 1])
    expect(await idsOf('--newest', '--after', newest.next)).toEqual([0])
    expect(await waybill(['list', '--after', newest.next])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^waybill: the cursor .* belongs to a list with the newest events first, /,
      ),
    })
  })

  test('prints an aligned table for people, without colour in a pipe and without payloads', async () => {
    const database = await createTestDatabase()
    await insert(database, [{}, { aggregate: ['invoice', '🦊'], dead: 'no\u001b[31mcolour\nhere' }])
    const { code, stdout, stderr } = await createCli(cwd, database)(['list'], { FORCE_COLOR: '1' })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[0]).toMatch(/^position {2}id +state +aggregate +type +attempts +created +last error$/)
    expect(stdout).not.toContain('\u001b')
    expect(lines[2]).toContain('no\\u001b[31mcolour\\nhere')
    expect(stdout).not.toContain('payload')
  })

  test.each(odd)('finds an aggregate with the id %j', async (id) => {
    const database = await createTestDatabase()
    const [found] = await insert(database, [{ aggregate: ['order', id] }, {}])
    const { code, stdout } = await createCli(cwd, database)(['list', '--aggregate', 'order', id, '--json'])
    expect(code).toBe(0)
    expect((JSON.parse(stdout) as { items: unknown[] }).items).toMatchObject([{ id: found, aggregateId: id }])
  })

  test.each([
    ['', '1 to 255'],
    ['x'.repeat(256), '1 to 255'],
  ])('refuses an aggregate with an id like %j', async (id, range) => {
    const database = await createTestDatabase()
    const { code, stderr } = await createCli(cwd, database)(['list', '--aggregate', 'order', id])
    expect(code).toBe(2)
    expect(stderr).toContain(range)
  })

  test('ends quietly when its reader goes away', async () => {
    const database = await createTestDatabase()
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       SELECT 'order', repeat('x', 40) || n, 'order.created', '{}' FROM generate_series(1, 1001) AS n`,
    )
    const command = `{ node dist/cli/main.js list --limit 1000; echo "exit $?" >&2; } | head -1`
    const run = startProcess('sh', ['-c', command], {
      cwd: projectFolder,
      env: variablesOf(database),
    })
    await run.exit
    expect(run.stdout).toMatch(/^position .*\n$/)
    expect(run.stderr).toMatch(/^there is more: .*\nexit 0\n$/)
  })
})

describe('dead', () => {
  test('list shows reasons; retry and discard by id, filter and all report exact counts', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, database)
    const ids = await insert(database, [
      { aggregate: ['a', '1'], dead: 'HTTP 400: total is missing' },
      { aggregate: ['a', '2'], dead: 'HTTP 400: total is missing', type: 'order.paid' },
      { aggregate: ['a', '3'], dead: 'no route', holds: true },
      { aggregate: ['a', '3'] },
    ])
    const stateOf = async (id: string) =>
      (await waybill(['list', '--json'])).json().items.find((item: { id: string }) => item.id === id)
        .state as string

    const listed = (await waybill(['dead', 'list', '--json'])).json()
    expect(listed.items).toMatchObject([
      { reason: 'HTTP 400: total is missing' },
      {},
      { reason: 'no route', holds: true },
    ])
    expect((await waybill(['dead', 'list'])).stdout).toMatch(/HTTP 400: total is missing\n/)
    expect((await waybill(['dead', 'list', '--error', 'NO ROUTE', '--json'])).json().items).toMatchObject([
      { id: ids[2] },
    ])
    expect(await stateOf(ids[3]!)).toBe('blocked')

    expect(await waybill(['dead', 'retry', ids[0]!])).toMatchObject({
      code: 0,
      stdout: 'retried 1 dead letter\n',
      stderr: '',
    })
    expect(await stateOf(ids[0]!)).toBe('pending')
    const filtered = await waybill([
      'dead',
      'discard',
      '--type',
      'order.paid',
      '--reason',
      'test order',
      '--json',
    ])
    expect(filtered.json()).toMatchObject({ matched: 1, changed: 1, complete: true })
    expect(await stateOf(ids[1]!)).toBe('discarded')
    expect((await waybill(['dead', 'discard', '--all', '--reason', 'cleaning up'])).stdout).toBe(
      'discarded 1 dead letter\n',
    )
    expect(await stateOf(ids[3]!)).toBe('pending')
    const decisions = await database.rows(
      'SELECT action, reason FROM "waybill".decisions ORDER BY decided_at',
    )
    expect(decisions).toMatchObject([
      {},
      { action: 'discarded', reason: 'test order' },
      { reason: 'cleaning up' },
    ])
    expect(await waybill(['dead', 'list'])).toMatchObject({
      code: 0,
      stdout: '',
      stderr: 'there is no dead letter\n',
    })
  })

  test('retry refuses an event that newer ones have overtaken, unless told otherwise', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, database)
    const [id] = await insert(database, [{ dead: 'HTTP 400' }, { published: true }])
    const refused = await waybill(['dead', 'retry', id!])
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(
      /was overtaken: newer events of its aggregate are published already.*--allow-older/,
    )
    const all = await waybill(['dead', 'retry', '--all'])
    expect(all).toMatchObject({ code: 1, stderr: '' })
    expect(all.stdout).toBe(
      `retried 0 dead letters\nleft alone 1 event: newer events of the aggregate are published already, --allow-older retries them all the same\n  ${id}\n`,
    )
    expect(await waybill(['dead', 'retry', '--all', '--allow-older'])).toMatchObject({ code: 0 })
  })

  test('an id that nobody knows, or that is no dead letter, is exit code 1', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, database)
    const [alive] = await insert(database, [{}])
    const unknown = randomUUID()
    expect(await waybill(['dead', 'retry', unknown])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `waybill: no event has the id ${unknown}\n`,
    })
    expect(await waybill(['dead', 'discard', alive!, '--reason', 'x'])).toMatchObject({ code: 1, stdout: '' })
    const both = await waybill(['dead', 'retry', unknown, alive!, '--json'])
    expect(both.code).toBe(1)
    expect(both.json()).toMatchObject({ changed: 0, skipped: { 'not-found': 1, 'not-dead': 1 } })
  })

  test('two thousand are retried in chunks and counted exactly', async () => {
    const database = await createTestDatabase()
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, attempts, last_error, dead_at)
       SELECT 'order', 'o-' || n, 'order.created', '{}', 8, 'HTTP 400', now() FROM generate_series(1, 2000) AS n`,
    )
    const waybill = createCli(cwd, database)
    const { code, stdout, stderr } = await waybill(['dead', 'retry', '--error', 'http 400'])
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'retried 2,000 dead letters\n', stderr: '' })
    expect((await waybill(['dead', 'retry', '--all'])).stdout).toBe('retried 0 dead letters\n')
  })
})

test('dead retry that is interrupted ends behind its chunk with exact counts, and goes on when run again', async () => {
  const database = await createTestDatabase()
  await database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, attempts, last_error, dead_at)
     SELECT 'order', 'o-' || n, 'order.created', '{}', 8, 'HTTP 400', now() FROM generate_series(1, 1500) AS n
     ORDER BY "waybill".outbox_bucket('order', 'o-' || n)`,
  )
  // Holds a bucket that is needed in the second chunk alone, so that the run is known to be in the middle of it.
  const holder = await database.connect()
  await holder.query('BEGIN')
  await holder.query(database.sql('SELECT FROM "waybill".outbox_buckets WHERE bucket = 32 FOR UPDATE'))
  const run = startCli(['dead', 'retry', '--all', '--json'], {
    cwd,
    database,
  })
  await untilOneWaits(database)
  run.signal('SIGINT')
  await holder.query('ROLLBACK')
  expect(await run.exit).toEqual({ code: 1, signal: null })
  expect(JSON.parse(run.stdout)).toMatchObject({ matched: 1000, changed: 1000, complete: false })
  const rest = await createCli(cwd, database)(['dead', 'retry', '--all', '--json'])
  expect(rest.json()).toMatchObject({ matched: 500, changed: 500, complete: true })
})

describe('prune and status', () => {
  test('prune removes what was published long ago and nothing else', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, database)
    await insert(database, [{ published: true }, { published: true }, {}, { dead: 'HTTP 400' }])
    const dry = await waybill(['prune', '--dry-run'])
    expect(dry.stdout).toMatch(/^would remove 2 events published before \S+; nothing was changed\n$/)
    const kept = await waybill(['prune'], { WAYBILL_RETENTION_PROCESSED_DAYS: '60' })
    expect(kept.stdout).toMatch(/^removed 0 events /)
    expect((await waybill(['prune', '--json'])).json()).toMatchObject({
      deleted: 2,
      complete: true,
      dryRun: false,
    })
    expect((await waybill(['list', '--json'])).json().items).toHaveLength(2)
  })

  test('status counts, and says that no relay runs', async () => {
    const database = await createTestDatabase()
    const waybill = createCli(cwd, database)
    await insert(database, [{}, {}, { dead: 'HTTP 400', aggregate: ['a', 'b'] }])
    const { code, stdout, stderr } = await waybill(['status'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/pending +2\n +retrying +0\n +blocked +0\n +dead +1\n +oldest +\d/)
    expect(stdout).toContain('none is running: start one with "waybill relay"')
    expect((await waybill(['status', '--json'])).json()).toMatchObject({
      counts: { pending: 2, retrying: 0, blocked: 0, dead: 1 },
      relays: [],
      wakeup: null,
    })
  })

  test('a role without the privilege is told the GRANT that it needs', async () => {
    const database = await createTestDatabase()
    const role = `viewer_${randomUUID().slice(0, 8)}`
    await database.client.query(`CREATE ROLE ${role} LOGIN`)
    try {
      const url = new URL(database.url)
      url.username = role
      const { code, stderr } = await createCli(cwd, url.href)(['status'])
      expect(code).toBe(1)
      expect(stderr).toContain(database.sql(`GRANT USAGE ON SCHEMA "waybill" TO "${role}"`))
    } finally {
      await database.client.query(`DROP ROLE ${role}`)
    }
  })
})
