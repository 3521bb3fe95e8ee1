import { describe, expect, test } from 'vitest'
import { readFields } from '../../src/outbox/fields.ts'

const event = { type: 'order.created', aggregate: ['order', 'o-1'], payload: {} }
const read = (changes: Record<string, unknown>) => readFields({ ...event, ...changes }, '')

describe('ids', () => {
  const longest = 'ü'.repeat(254) + '😀'
  test.each([[':'], ['/'], ['*'], ['a b'], [' '], ['😀'], ['*:/#\n'], [longest], ['😀'.repeat(255)]])(
    'are kept as they are: %j',
    (id) => {
      expect(read({ aggregate: [id, id], type: id, operationId: id })).toMatchObject({
        aggregateType: id,
        aggregateId: id,
        type: id,
        operationId: id,
      })
    },
  )

  test('may be a number or a bigint and become decimal text', () => {
    expect(read({ aggregate: ['order', 42] }).aggregateId).toBe('42')
    expect(read({ aggregate: ['order', 2n ** 70n] }).aggregateId).toBe('1180591620717411303424')
  })

  test.each([
    [{ aggregate: ['', 'x'] }, 'aggregate[0] must be a text of 1 to 255 characters, got an empty text'],
    [{ aggregate: ['x', ''] }, 'aggregate[1] must be a text of 1 to 255 characters, got an empty text'],
    [{ type: 'x'.repeat(256) }, 'type must be a text of 1 to 255 characters, got 256'],
    [
      { aggregate: ['x', '😀'.repeat(256)] },
      'aggregate[1] must be a text of 1 to 255 characters, got many more',
    ],
    [
      { aggregate: ['x', 'ü'.repeat(255) + '😀'] },
      'aggregate[1] must be a text of 1 to 255 characters, got 256',
    ],
    [{ type: undefined }, 'type must be a text of 1 to 255 characters, got undefined'],
    [{ aggregate: ['x', 1.5] }, 'aggregate[1] must be a text of 1 to 255 characters, got a number'],
    [{ aggregate: ['x', Number.NaN] }, 'aggregate[1] must be a text of 1 to 255 characters, got NaN'],
    [{ aggregate: ['x', null] }, 'aggregate[1] must be a text of 1 to 255 characters, got null'],
    [{ aggregate: ['x'] }, 'aggregate must be a pair [type, id], got an array'],
    [{ aggregate: 'order' }, 'aggregate must be a pair [type, id], got a string'],
    [{ operationId: '' }, 'operationId must be a text of 1 to 255 characters, got an empty text'],
    [{ scope: 'x'.repeat(101), revision: 1 }, 'scope must be a text of at most 100 characters, got 101'],
    [{ id: 'o-1' }, 'id must be a UUID such as "0197f6a0-2f43-7cc0-8000-5b1f0c0f7d11"'],
    [
      { agregate: 1 },
      'agregate is no field of an event: use type, aggregate, payload, headers, revision, scope, operationId, id',
    ],
  ])('are refused: %j', (changes, message) => {
    expect(() => read(changes)).toThrow(expect.objectContaining({ code: 'EVENT_INVALID', message }))
  })

  test.each([
    [{ aggregate: ['x', 'a\u0000'] }, /^aggregate\[1\] holds the character U\+0000/],
    [{ type: '\uD83D' }, /^type holds half of a surrogate pair/],
    [{ operationId: 'a\u0000' }, /^operationId holds the character U\+0000/],
    [{ scope: 'a\u0000', revision: 1 }, /^scope holds the character U\+0000/],
    [{ scope: 'list' }, /^scope is given without a revision/],
  ])('that PostgreSQL cannot store are refused: %j', (changes, message) => {
    expect(() => read(changes)).toThrow(message)
  })

  test('the id of an event is a new UUIDv7, or the given UUID in lower case', () => {
    const first = read({}).id
    expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(read({}).id > first).toBe(true)
    expect(read({ id: '0197F6A0-2F43-7CC0-8000-5B1F0C0F7D11' }).id).toBe(
      '0197f6a0-2f43-7cc0-8000-5b1f0c0f7d11',
    )
  })
})

describe('revision', () => {
  test.each([
    [0, 0n],
    [7, 7n],
    [2n ** 63n - 1n, 2n ** 63n - 1n],
    [Number.MAX_SAFE_INTEGER, 9007199254740991n],
  ])('%s is taken', (given, revision) => expect(read({ revision: given }).revision).toBe(revision))
  test.each([[-1], [-1n], [1.5], [2 ** 53], [2n ** 63n], [Number.NaN], ['7'], [null]])(
    '%s is refused',
    (revision) => {
      expect(() => read({ revision })).toThrow(/^revision must be a bigint from 0 to 2\^63 - 1/)
    },
  )
})

describe('headers', () => {
  test('are texts; an undefined one is left out', () => {
    const headers = { tenant: 'ü', 'x-empty': '', traceparent: 'own', later: undefined }
    expect(read({ headers }).headers).toEqual([
      ['tenant', 'ü'],
      ['x-empty', ''],
      ['traceparent', 'own'],
    ])
  })

  test('one that is named __proto__ stays a header', () => {
    expect(read({ headers: JSON.parse('{"__proto__": "a"}') as object }).headers).toEqual([
      ['__proto__', 'a'],
    ])
  })

  const message = [
    'id',
    'eventType',
    'aggregateType',
    'aggregateId',
    'createdAt',
    'revision',
    'operationId',
    'replay',
  ]
  const transport = [
    'host',
    'content-length',
    'authorization',
    'webhook-id',
    'Webhook-Signature',
    'x-waybill-event-id',
  ]
  test.each([...message, ...transport])('must not be named %s, in any case', (name) => {
    for (const spelled of [name, name.toUpperCase(), name.toLowerCase()]) {
      expect(() => read({ headers: { [spelled]: 'x' } })).toThrow(
        /is a reserved header: give it another name$/,
      )
    }
  })

  test.each([
    [{ a: 1 }, 'headers.a must be a text, got a number'],
    [{ a: null }, 'headers.a must be a text, got null'],
    [{ a: { b: 'c' } }, 'headers.a must be a text, got an object'],
    [{ 'x-list': ['a'] }, 'headers["x-list"] must be a text, got an array'],
    [{ '': 'a' }, 'headers[""] has an empty name'],
    ['a', 'headers must be an object of texts, got a string'],
    [['a'], 'headers must be an object of texts, got an array'],
    [null, 'headers must be an object of texts, got null'],
  ])('%j is refused', (headers, message) => {
    expect(() => read({ headers })).toThrow(expect.objectContaining({ code: 'EVENT_INVALID', message }))
  })

  test('text that PostgreSQL cannot store is refused in names and values', () => {
    expect(() => read({ headers: { a: '\u0000' } })).toThrow(/^headers\.a holds the character U\+0000/)
    expect(() => read({ headers: { 'a\uD83D': 'x' } })).toThrow(
      /^headers\["a\\ud83d"\] has a name that holds half/,
    )
  })
})

describe('an event', () => {
  test.each([
    [undefined, 'undefined'],
    [null, 'null'],
    ['x', 'a string'],
    [[], 'an array'],
  ])('is not %j', (value, kind) => {
    expect(() => readFields(value, '')).toThrow(`the event must be an object, got ${kind}`)
    expect(() => readFields(value, 'events[3].')).toThrow(`events[3] must be an object, got ${kind}`)
  })

  test('in a batch is named by its place', () => {
    expect(() => readFields({ ...event, type: '' }, 'events[2].')).toThrow(/^events\[2\]\.type must be/)
  })

  test('with fields that are undefined is as one without them', () => {
    const none = {
      headers: undefined,
      revision: undefined,
      scope: undefined,
      operationId: undefined,
      id: undefined,
    }
    expect(read(none)).toMatchObject({ headers: [], revision: null, scope: '', operationId: null })
  })
})
