import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { insertEvents, readEvents, testRelay, upTo } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually } from './kit.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const unpublished = async () => (await readEvents(database)).filter((row) => !row.published)

/** A trigger of somebody's own on the outbox. */
async function addTrigger(body: string): Promise<void> {
  await database.query(
    `CREATE FUNCTION public.own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} RETURN NEW; END $$;
     CREATE TRIGGER own BEFORE UPDATE ON "waybill".outbox_events FOR EACH ROW EXECUTE FUNCTION public.own()`,
  )
}

describe('marks that the database refuses', () => {
  test('for one event: all others are marked, and that one once it can be, without being sent again', async () => {
    const ids = await insertEvents(
      database,
      upTo(300).map((n) => ({ aggregate: `a-${n % 100}`, payload: { n } })),
    )
    const [odd] = ids
    await addTrigger(`IF NEW.id = '${odd}' THEN RAISE EXCEPTION 'not this one'; END IF;`)
    const bus = recordingPublisher()
    const relay = testRelay(database, { destinations: { bus } })
    await relay.start()
    await eventually('all others are marked', async () => (await unpublished()).length <= 1)
    expect(await unpublished()).toMatchObject([{ id: odd }])
    expect(relay.events('database.down')[0]!.error).toContain('not this one')
    // Those that come later do not wait for it either.
    await insertEvents(
      database,
      upTo(50).map((n) => ({ aggregate: `b-${n}`, payload: { n } })),
    )
    await eventually('the later ones are marked', async () => (await unpublished()).length === 1)
    await database.query('DROP TRIGGER own ON "waybill".outbox_events')
    await eventually('it is marked', async () => (await unpublished()).length === 0)
    expect(await relay.stop()).toEqual({ clean: true })
    expect(bus.delivered).toHaveLength(350)
  })

  let role: string | undefined
  afterEach(async () => {
    if (role !== undefined) await database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    role = undefined
  })

  test('since so many of them take longer than the role may: they are marked in smaller parts', async () => {
    role = `${database.name}_hasty`
    await database.query(`CREATE ROLE ${role} LOGIN SUPERUSER`)
    await database.query(`ALTER ROLE ${role} SET statement_timeout = '500ms'`)
    const url = new URL(database.url)
    url.username = role
    await addTrigger('PERFORM pg_sleep(0.002);')
    await insertEvents(
      database,
      upTo(1_000).map((n) => ({ aggregate: `a-${n}`, payload: { n } })),
    )
    const bus = recordingPublisher()
    const relay = testRelay(
      { url: url.href, schema: database.schema },
      { destinations: { bus }, batchSize: 1_000 },
    )
    await relay.start()
    await eventually('all are marked', async () => (await unpublished()).length === 0, 20_000)
    expect(relay.events('database.down')[0]!.error).toContain('statement timeout')
    expect(await relay.stop()).toEqual({ clean: true })
    expect(bus.delivered).toHaveLength(1_000)
  })

  test('never come from a number in a row that cannot grow: the event is a dead letter like any other', async () => {
    const [odd] = await insertEvents(database, [{ aggregate: 'odd' }])
    await database.query('UPDATE "waybill".outbox_events SET attempts = 2147483647')
    const bus = recordingPublisher({
      behave: ({ eventId }) =>
        eventId === odd ? { status: 'retry', error: new Error('no') } : { status: 'published' },
    })
    const relay = testRelay(database, { destinations: { bus }, outageGraceMs: 0 })
    await relay.start()
    await eventually('it is a dead letter', async () => (await readEvents(database))[0]!.dead)
    expect(relay.events('database.down')).toEqual([])
    expect(await relay.stop()).toEqual({ clean: true })
  })
})
