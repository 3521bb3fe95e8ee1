import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../src/database/identifiers.ts'
import { type PublicationInput, createDiagnosis } from '../../src/publications/index.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

// The tables of the user's that a publication names: what is wrong with them is told in their own terms.

let database: TestDatabase
const role = `reader_${randomBytes(4).toString('hex')}`
const open: { close(): Promise<void> }[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  await database.query('CREATE TABLE notes (id text PRIMARY KEY, revision integer NOT NULL)')
  await database.query("INSERT INTO notes VALUES ('n-42', 7)")
})
afterAll(async () => {
  for (const diagnosis of open) await diagnosis.close()
  await database.client.query(`DROP OWNED BY ${role}`)
  await database.client.query(`DROP ROLE ${role}`)
})

function diagnosisOf(note: Partial<PublicationInput>, databaseUrl = database.url) {
  const intent = { eventType: 'note.published', payload: "jsonb_build_object('id', id)" }
  const made = createDiagnosis({
    ...{ databaseUrl, schema: testSchema },
    publications: { note: { source: { table: 'notes' }, intent, ...note } },
  })
  open.push(made)
  return made
}
const key = { type: 'note', id: 'n-42', revision: 7 }
const why = { reason: 'the old path' }

describe('a table that is not there', () => {
  test.each(['nots', 'shop.notes', `${quoteIdentifier(testSchema)}.nots`])(
    'is named with its option by every command: %s',
    async (table) => {
      const diagnosis = diagnosisOf({ source: { table } })
      const error = {
        code: 'CONFIGURATION_INVALID',
        message: `there is no table ${table}: correct source.table of the publication`,
      }
      await expect(diagnosis.audit('note')).rejects.toMatchObject(error)
      await expect(diagnosis.createIntent(key, why)).rejects.toMatchObject(error)
      await expect(diagnosis.trace({ type: 'note', id: 'n-42' })).rejects.toMatchObject(error)
      const { facts } = await diagnosis.trace({ ...key, revision: '7' })
      expect(facts.source).toMatchObject({ status: 'unknown', reason: error.message })
    },
  )

  test('of a projection as well', async () => {
    const diagnosis = diagnosisOf({ projections: [{ name: 'list', table: 'public_nots' }] })
    const reason = 'there is no table public_nots: correct projections.table of the publication'
    const { facts } = await diagnosis.trace({ ...key, revision: '7' })
    expect(facts.projections[0]!.fact).toMatchObject({ status: 'unknown', reason })
    expect((await diagnosis.audit('note')).gaps).toContainEqual({ name: 'projection list', reason })
  })

  test('nor a function or an operator of an expression, is no reason to migrate', async () => {
    for (const payload of ['jsonb_build_objekt(id)', 'id + id', '(SELECT to_jsonb(x) FROM nots AS x)']) {
      const diagnosis = diagnosisOf({ intent: { eventType: 'note.published', payload } })
      const error = await diagnosis.createIntent(key, why).catch((e: unknown) => e as Error)
      expect((error as Error).message).toMatch(/does not exist/)
      expect((error as Error).message).not.toContain('migrate')
    }
  })
})

describe('a table that may not be read', () => {
  const asReader = () => {
    const url = new URL(database.url)
    url.username = role
    url.password = ''
    return url.href
  }
  beforeAll(async () => {
    await database.client.query(`CREATE ROLE ${role} LOGIN`)
    await database.query(`GRANT USAGE ON SCHEMA "waybill" TO ${role}`)
    await database.query(`GRANT SELECT ON ALL TABLES IN SCHEMA "waybill" TO ${role}`)
  })

  test('is named with its own schema, and the grant works', async () => {
    const diagnosis = diagnosisOf({}, asReader())
    const message = `role "${role}" lacks SELECT on the table public.notes: its owner may run GRANT SELECT ON public.notes TO "${role}"`
    await expect(diagnosis.audit('note')).rejects.toMatchObject({ code: 'PERMISSION_DENIED', message })
    expect((await diagnosis.trace({ ...key, revision: '7' })).facts.source).toMatchObject({ reason: message })
    await database.client.query(/GRANT .+$/.exec(message)![0])
    expect((await diagnosis.audit('note')).checked).toBe(1)
  })

  test("behind a view of the user's is not taken for one of ours", async () => {
    await database.query('CREATE TABLE hidden (id text, revision integer)')
    await database.client.query(`CREATE VIEW shown AS SELECT * FROM hidden`)
    await database.client.query(`GRANT SELECT ON shown TO ${role}`)
    await database.client.query(`GRANT CREATE ON SCHEMA public TO ${role}`)
    await database.client.query(`ALTER VIEW shown OWNER TO ${role}`)
    const error = await diagnosisOf({ source: { table: 'shown' } }, asReader())
      .audit('note')
      .catch((e: unknown) => e as Error)
    expect(error).toMatchObject({
      code: 'PERMISSION_DENIED',
      message: expect.stringContaining('on the table "hidden", which is none of Waybill\'s') as string,
    })
  })
})
