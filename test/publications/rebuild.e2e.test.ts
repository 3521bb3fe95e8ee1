import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { createCli, temporaryFolder } from '../cli/cli.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { startCli, startNode } from '../support/processes.ts'

const secret = `whsec_${randomBytes(24).toString('base64')}`
let database: TestDatabase
let cwd: string
let waybill: ReturnType<typeof createCli>

beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(
    `CREATE TABLE public.notes (id text PRIMARY KEY, revision integer NOT NULL, body text);
     CREATE TABLE public.public_notes (id text PRIMARY KEY, body text)`,
  )
  cwd = await temporaryFolder()
  waybill = createCli(cwd, database)
})

const configure = (port: string) =>
  writeFile(
    join(cwd, 'waybill.config.json'),
    JSON.stringify({
      destinations: { list: { type: 'webhook', url: `http://127.0.0.1:${port}/`, secret } },
      publications: {
        note: {
          source: { table: 'public.notes' },
          intent: { eventType: 'note.published', payload: `jsonb_build_object('id', id, 'body', body)` },
          projections: [{ name: 'public_notes', table: 'public.public_notes' }],
          consumers: ['public-list'],
        },
      },
    }),
  )

async function publish(ids: readonly string[]): Promise<void> {
  const outbox = createOutbox({ client: pgClient(), schema: database.schema })
  const { client } = database
  await client.query('BEGIN')
  for (const id of ids) {
    await client.query('INSERT INTO public.notes VALUES ($1, 1, $2)', [id, `text of ${id}`])
    const payload = { id, body: `text of ${id}` }
    await outbox.publish(client, { type: 'note.published', aggregate: ['note', id], revision: 1, payload })
  }
  await client.query('COMMIT')
}

test('a public list that lost its rows is filled again from the source, by its own process', async () => {
  const environment = { DATABASE_URL: database.url, SCHEMA: database.schema, SECRET: secret }
  const list = startNode('test/publications/fixtures/list-process.ts', [], { env: environment })
  const [, port] = await list.line(/listens on (\d+)/)
  await configure(port!)
  const ids = ['n-1', 'n-2', 'n-3']
  await publish(ids)
  expect((await waybill(['relay', '--once'])).code).toBe(0)
  const trace = async (id: string) => (await waybill(['trace', 'note', id, '--json'])).json()
  const shown = () => database.rows('SELECT id, body FROM public.public_notes ORDER BY id')
  const right = ids.map((id) => ({ id, body: `text of ${id}` }))
  expect(await shown()).toEqual(right)
  expect((await trace('n-1')).verdict).toMatchObject({ state: 'projection-current', symptom: null })

  // Rows are gone: the trace names the command, and this very command mends it.
  await database.query(`DELETE FROM public.public_notes WHERE id < 'n-3'`)
  const { verdict } = await trace('n-1')
  expect(verdict).toMatchObject({
    ...{ symptom: 'projection-old', cause: 'applied-but-projection-old' },
    command: 'waybill projection rebuild public_notes --aggregate note n-1',
  })
  const one = await waybill(verdict.command.split(' ').slice(1))
  expect(one).toMatchObject({ code: 0, stdout: 'note: rebuilt 1 aggregate of 1 by public-list\n' })
  expect((await trace('n-1')).verdict).toMatchObject({ state: 'projection-current', symptom: null })

  // The list holds still: nothing is taken, and Ctrl-C tells how much waits.
  await database.query(`UPDATE public.public_notes SET body = 'nonsense'`)
  await database.query('BEGIN; LOCK TABLE public.public_notes IN EXCLUSIVE MODE')
  const stopped = startCli(['projection', 'rebuild', 'public_notes', '--reason', 'nonsense'], {
    cwd,
    database,
  })
  const watcher = await database.connect()
  const waiting = async () =>
    (await watcher.query(database.sql(`SELECT FROM "waybill".consumer_messages WHERE state = 'rebuild'`)))
      .rowCount
  await expect.poll(waiting, { timeout: 30_000 }).toBe(3)
  stopped.signal('SIGINT')
  expect(await stopped.exit).toMatchObject({ code: 1 })
  expect(stopped.stdout).toMatch(
    /^note: rebuilt 0 aggregates of 3 by public-list\n {2}3 aggregates still to be taken by the consumer\nstopped early: .*\n$/,
  )
  await database.query('ROLLBACK')

  const all = await waybill(['projection', 'rebuild', 'public_notes', '--json'])
  expect(all.code).toBe(0)
  expect(all.json()).toMatchObject({
    ...{ projection: 'public_notes', complete: true, stopped: null },
    publications: [{ publication: 'note', read: 3, rebuilt: 3, waiting: 0, dead: 0, notInSource: 0 }],
  })
  expect(await shown()).toEqual(right)
  for (const id of ids)
    expect((await trace(id)).verdict).toMatchObject({ state: 'projection-current', symptom: null })
  expect((await waybill(['audit'])).code).toBe(0)
  expect((await waybill(['decisions'])).stdout).toMatch(/rebuilt +\S+ +projection public_notes +nonsense/)

  list.signal('SIGTERM')
  expect(await list.exit).toMatchObject({ code: 0 })
  const refused = await waybill(['projection', 'rebuild', 'public_notes'])
  expect(refused.code).toBe(1)
  expect(refused.stderr).toMatch(/^waybill: no process of the consumer "public-list" .*\n$/)
  const unknown = await waybill(['projection', 'rebuild', 'public-notes'])
  expect(unknown).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean "public_notes"?') as string,
  })
})
