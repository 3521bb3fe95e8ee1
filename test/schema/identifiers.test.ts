import { expect, test } from 'vitest'
import { checkSchemaName, inSchema, quoteIdentifier } from '../../src/database/identifiers.ts'

test('an identifier is quoted, and its quotes are doubled', () => {
  expect(quoteIdentifier('My"Schema')).toBe('"My""Schema"')
})

test('SQL is written for another schema: names, and literals that hold a name', () => {
  const sql = `SELECT * FROM "waybill".a, "waybill".b WHERE c = '"waybill".d'::regclass AND e = 'waybill'`
  expect(inSchema(sql, 'waybill')).toBe(sql)
  expect(inSchema(sql, `O'Brien"s $& $1`)).toBe(
    `SELECT * FROM "O'Brien""s $& $1".a, "O'Brien""s $& $1".b WHERE c = '"O''Brien""s $& $1".d'::regclass AND e = 'waybill'`,
  )
})

test('a name that holds the default one is not replaced again', () => {
  expect(inSchema('"waybill".a', 'x"waybill"')).toBe('"x""waybill""".a')
})

test('a message about a long name stays short', () => {
  expect(() => checkSchemaName('x'.repeat(5000))).toThrow(/^expected schema to be .{1,250}$/)
})
