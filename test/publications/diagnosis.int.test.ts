import { expect, test } from 'vitest'
import { createDiagnosis } from '../../src/publications/index.ts'
import { database, save } from './fixtures/notes.ts'

test('a program asks and decides as a person does', async () => {
  const diagnosis = createDiagnosis({
    ...{ databaseUrl: database.url, schema: database.schema },
    publications: {
      note: {
        source: { table: 'notes' },
        intent: { eventType: 'note.published', payload: "jsonb_build_object('id', id)" },
      },
    },
  })
  await save('n-1', 1)
  await save('n-2', 3, { withIntent: false })
  expect((await diagnosis.trace({ type: 'note', id: 'n-1' })).verdict.state).toBe('intent-pending')
  const report = await diagnosis.audit('note')
  expect(report.symptoms['intent-missing']).toMatchObject({ count: 1, first: [{ id: 'n-2', revision: '3' }] })
  const key = { type: 'note', id: 'n-2', revision: 3 }
  await expect(diagnosis.replay(key, { reason: 'again' })).rejects.toMatchObject({ code: 'ACTION_REFUSED' })
  const { eventId } = await diagnosis.createIntent(key, { reason: 'an old write path', by: 'test' })
  expect((await diagnosis.trace({ eventId })).intentKey).toBe('n-2:3')
  expect(await diagnosis.decisions()).toMatchObject([
    { action: 'intent created', reason: 'an old write path' },
  ])
  await expect(diagnosis.audit('nope')).rejects.toThrow('unknown publication "nope", configured: note')
  await diagnosis.close()
})

test('a publication with a wrong key is refused', () => {
  const publications = { note: { source: { table: 'notes', colunm: 'id' } } } as never
  expect(() => createDiagnosis({ databaseUrl: 'postgres://127.0.0.1/x', publications })).toThrow(
    /publications\.note\.source\.colunm/,
  )
})
