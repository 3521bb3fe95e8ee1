import { expect, test } from 'vitest'
import { WaybillError } from '../../src/errors.ts'

test('an error becomes JSON: bigints as decimal text, without its cause', () => {
  const error = new WaybillError('REVISION_CONFLICT', 'a newer one was published', {
    cause: new Error('INSERT … 4111 1111'),
    details: { newest: 9007199254740993n, nested: { revisions: [1n, 2] }, nothing: null },
  })
  expect(JSON.parse(JSON.stringify({ error }))).toEqual({
    error: {
      name: 'WaybillError',
      code: 'REVISION_CONFLICT',
      message: 'a newer one was published',
      retryable: false,
      details: { newest: '9007199254740993', nested: { revisions: ['1', 2] }, nothing: null },
    },
  })
  // What a program reads stays as it was.
  expect(error.details['newest']).toBe(9007199254740993n)
})

test('an error that may pass says so in JSON', () => {
  expect(new WaybillError('DATABASE_TIMEOUT', 'no answer').toJSON()).toMatchObject({
    retryable: true,
    details: {},
  })
})
