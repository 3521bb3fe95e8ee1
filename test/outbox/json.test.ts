import { describe, expect, test } from 'vitest'
import { encodeJson } from '../../src/outbox/json.ts'

const encode = (value: unknown) => encodeJson(value, 'payload')

/** The sentence with which a value is refused. */
function refusal(value: unknown): string {
  try {
    encode(value)
  } catch (error) {
    expect(error).toMatchObject({ name: 'WaybillError', code: 'EVENT_INVALID' })
    return (error as Error).message
  }
  throw new Error('the value was accepted')
}

const cyclic: Record<string, unknown> = { a: { b: [] } }
;(cyclic['a'] as { b: unknown[] }).b.push({ c: cyclic['a'] })
const deep = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`) as unknown
const shared = { x: 1 }

describe('a value that JSON can hold', () => {
  const stored: [name: string, value: unknown][] = [
    ['null', null],
    ['an empty object', {}],
    ['text with every kind of character', 'a"\\\n\u0001 ü 😀 \u2028'],
    ['numbers', [0, -1.5, 1e21, 5e-324, Number.MAX_SAFE_INTEGER, Number.MAX_VALUE]],
    ['a member that is undefined', { a: undefined, b: 1 }],
    ['a Date', { at: new Date(0) }],
    ['an object with toJSON', { price: { amount: 1n, toJSON: () => '1' } }],
    ['a Buffer, by its toJSON', Buffer.from('ab')],
    ['boxed values', [Object(1), Object('a'), Object(true)]],
    [
      'an instance of a class',
      new (class Order {
        id = 1
        #secret = 2
        read = this.#secret
      })(),
    ],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
    ['one object at two places', { a: shared, b: [shared, shared] }],
    ['a member named __proto__', JSON.parse('{"__proto__": {"a": 1}}')],
    ['members with strange names', { '': 1, 'a.b': 2, '[0]': 3, '😀': 4 }],
    ['a member with a symbol as its name, which JSON leaves out', { [Symbol('s')]: 1, a: 2 }],
    ['a depth of 1000', deep(1000)],
  ]
  test.each(stored)('is written as JSON.stringify writes it: %s', (_, value) => {
    expect(encode(value)).toBe(JSON.stringify(value))
  })

  test('minus zero becomes zero, as in JSON and in PostgreSQL', () => {
    expect(encode({ a: -0 })).toBe('{"a":0}')
  })

  test('toJSON is called once', () => {
    let calls = 0
    encode({ a: { toJSON: () => ++calls } })
    expect(calls).toBe(1)
  })
})

describe('a value that JSON or PostgreSQL would lose is refused with its path', () => {
  const refused: [value: unknown, message: string | RegExp][] = [
    [{ a: Number.NaN }, 'payload.a is NaN, which JSON cannot hold'],
    [[1, { b: [Infinity] }], 'payload[1].b[0] is Infinity, which JSON cannot hold'],
    [-Infinity, 'payload is -Infinity, which JSON cannot hold'],
    [{ 'unit price': Object(Number.NaN) }, 'payload["unit price"] is NaN, which JSON cannot hold'],
    [{ id: 1n }, 'payload.id is a BigInt, which JSON cannot hold: convert it to a text'],
    [{ id: Object(1n) }, 'payload.id is a BigInt, which JSON cannot hold: convert it to a text'],
    [{ at: new Date(Number.NaN) }, 'payload.at is an invalid Date'],
    [new Date('never'), 'payload is an invalid Date'],
    [[1, undefined], 'payload[1] is undefined, which JSON cannot hold'],
    // eslint-disable-next-line no-sparse-arrays -- a hole is the point
    [{ list: [1, , 3] }, 'payload.list[1] is undefined, which JSON cannot hold'],
    [undefined, 'payload is undefined, which JSON cannot hold'],
    [{ f: () => 1 }, 'payload.f is a function, which JSON cannot hold'],
    [{ s: Symbol('s') }, 'payload.s is a symbol, which JSON cannot hold'],
    [{ a: 'x\u0000y' }, /^payload\.a holds the character U\+0000/],
    [{ a: ['\uD83D'] }, /^payload\.a\[0\] holds half of a surrogate pair/],
    [{ a: { 'x\u0000': 1 } }, /^payload\.a\["x\\u0000"\] has a name that holds the character U\+0000/],
    [{ '\uDE00': 1 }, /^payload\["\\ude00"\] has a name that holds half of a surrogate pair/],
    [Object('a\u0000'), /^payload holds the character U\+0000/],
    [{ m: new Map([[1, 2]]) }, /^payload\.m is of the type Map, which JSON would write as \{\}/],
    [{ s: new Set([1]) }, /^payload\.s is of the type Set/],
    [{ e: new Error('x') }, /^payload\.e is of the type Error/],
    [{ r: /x/ }, /^payload\.r is of the type RegExp/],
    [{ user: Promise.resolve(1) }, 'payload.user is a Promise: await it first'],
    [{ b: new Uint8Array([1]) }, /^payload\.b is binary data/],
    [{ b: new DataView(new ArrayBuffer(1)) }, /^payload\.b is binary data/],
    [{ b: new ArrayBuffer(1) }, /^payload\.b is of the type ArrayBuffer/],
    [cyclic, 'payload.a.b[0].c contains itself'],
    [deep(1001), /is nested more than 1000 levels deep$/],
    [{ toJSON: () => ({ a: Number.NaN }) }, 'payload.a is NaN, which JSON cannot hold'],
  ]
  test.each(refused)('%o', (value, message) => {
    const got = refusal(value)
    if (typeof message === 'string') expect(got).toBe(message)
    else expect(got).toMatch(message)
  })

  test('after members of every depth the path is still right', () => {
    expect(refusal({ a: { b: { c: 1 } }, d: [[{}], { e: 2n }] })).toMatch(/^payload\.d\[1\]\.e is a BigInt/)
  })

  test('a long name in a path is cut', () => {
    expect(refusal({ ['x '.repeat(500)]: Number.NaN }).length).toBeLessThan(120)
  })

  test('the path is in the details, for programs', () => {
    expect(() => encode({ a: [Number.NaN] })).toThrow(
      expect.objectContaining({ details: { path: 'payload.a[0]' } }),
    )
  })
})
