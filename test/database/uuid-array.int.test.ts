import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { uuidArray } from '../../src/database/uuid-array.ts'
import { createTestDatabase } from '../support/postgres.ts'

const database = await createTestDatabase({ migrated: false })

it.each([
  ['none', []],
  ['one', ['00000000-0000-0000-0000-000000000000']],
  ['the largest', ['ffffffff-ffff-ffff-ffff-ffffffffffff', 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFE']],
  ['every digit in every place', '0123456789abcdef'.split('').map((d) => idOf(d))],
  ['many', Array.from({ length: 5_000 }, () => randomUUID())],
])('PostgreSQL reads the same ids: %s', async (_, ids) => {
  const { rows } = await database.query<{ ids: string[] }>('SELECT $1::uuid[]::text[] AS ids', [
    uuidArray(ids),
  ])
  expect(rows[0]!.ids).toEqual(ids.map((id) => id.toLowerCase()))
})

function idOf(digit: string): string {
  return [8, 4, 4, 4, 12].map((length) => digit.repeat(length)).join('-')
}
