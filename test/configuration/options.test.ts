import { describe, expect, test } from 'vitest'
import { hasCode } from '../../src/errors.ts'
import {
  boolean,
  either,
  extend,
  instance,
  integer,
  list,
  number,
  object,
  oneOf,
  record,
  resolveOptions,
  string,
  url,
  variants,
  type OptionSource,
  type Spec,
} from '../../src/options.ts'

/** The problems of a value, as sentences. */
function problems(
  spec: Spec,
  value: unknown,
  path = '',
  sources = new Map<string, OptionSource>(),
): string[] {
  try {
    resolveOptions(spec, value, { path, sources })
  } catch (error) {
    if (hasCode(error, 'CONFIGURATION_INVALID')) return [...(error.details['problems'] as string[])]
    throw error
  }
  return []
}

const fromText = (...paths: string[]) =>
  new Map(paths.map((path) => [path, { name: `VARIABLE_OF_${path.toUpperCase()}`, hidden: false }]))

const relay = object({
  batchSize: integer({ min: 1, max: 10_000 }).default(200),
  wakeup: oneOf('auto', 'poll').default('auto'),
})
const whole = object({
  relay: relay.default({}),
  schema: string().default('waybill'),
  token: string({ secret: true }).optional(),
})

describe('what is resolved', () => {
  test('is complete, with every default, also of parts that were left out', () => {
    expect(resolveOptions(whole, {})).toEqual({
      relay: { batchSize: 200, wakeup: 'auto' },
      schema: 'waybill',
    })
  })

  test('keeps what was written', () => {
    const written = { relay: { batchSize: 5 }, schema: 'My"Schema', token: 't' }
    expect(resolveOptions(whole, written)).toEqual({ ...written, relay: { batchSize: 5, wakeup: 'auto' } })
  })

  test('leaves an optional key out instead of making it undefined', () => {
    expect(Object.keys(resolveOptions(whole, { token: undefined }))).toEqual(['relay', 'schema'])
  })

  test('takes no value from the prototype of what was written', () => {
    expect(resolveOptions(object({ toString: string().optional() }), {})).toEqual({})
  })

  test('is frozen at every depth', () => {
    const spec = object({ a: list(object({ b: record(integer({ min: 0, max: 9 })) })) })
    const resolved = resolveOptions(spec, { a: [{ b: { x: 1 } }] })
    for (const part of [resolved, resolved.a, resolved.a[0], resolved.a[0]!.b])
      expect(Object.isFrozen(part)).toBe(true)
  })

  test('does not change or keep the object that was given', () => {
    const given = { relay: { batchSize: 5 } }
    const resolved = resolveOptions(whole, given)
    given.relay.batchSize = 6
    expect(resolved.relay.batchSize).toBe(5)
    expect(Object.isFrozen(given.relay)).toBe(false)
  })

  test('keeps an instance itself and does not freeze it', () => {
    const handle = { close() {} }
    const spec = object({ handle: instance<typeof handle>('a handle', (v) => v === handle) })
    expect(resolveOptions(spec, { handle }).handle).toBe(handle)
    expect(Object.isFrozen(handle)).toBe(false)
  })
})

describe('messages', () => {
  test.each([
    ['5o', 'expected relay.batchSize to be an integer from 1 to 10000, got "5o"'],
    ['5', 'expected relay.batchSize to be an integer from 1 to 10000, got "5"'],
    [0, 'expected relay.batchSize to be an integer from 1 to 10000, got 0'],
    [10_001, 'expected relay.batchSize to be an integer from 1 to 10000, got 10001'],
    [1.5, 'expected relay.batchSize to be an integer from 1 to 10000, got 1.5'],
    [NaN, 'expected relay.batchSize to be an integer from 1 to 10000, got NaN'],
    [null, 'expected relay.batchSize to be an integer from 1 to 10000, got null'],
    [[], 'expected relay.batchSize to be an integer from 1 to 10000, got an empty list'],
    [{}, 'expected relay.batchSize to be an integer from 1 to 10000, got an object'],
    [10n, 'expected relay.batchSize to be an integer from 1 to 10000, got 10n'],
  ])('a wrong number %s is named with its place and range', (batchSize, message) => {
    expect(problems(relay, { batchSize }, 'relay')).toEqual([message])
  })

  test.each([
    [{ batchsize: 5 }, '"relay.batchsize", did you mean "relay.batchSize"?'],
    [{ batch_size: 5 }, '"relay.batch_size", did you mean "relay.batchSize"?'],
    [{ bachSize: 5 }, '"relay.bachSize", did you mean "relay.batchSize"?'],
    [{ colour: 5 }, '"relay.colour", expected one of batchSize, wakeup'],
    [JSON.parse('{"__proto__": 5}'), '"relay.__proto__", expected one of batchSize, wakeup'],
    [{ toString: 5 }, '"relay.toString", expected one of batchSize, wakeup'],
  ])('an unknown key of %j is refused with what was probably meant', (written, rest) => {
    expect(problems(relay, written, 'relay')).toEqual([`unknown option ${rest}`])
  })

  test('a top-level unknown key is named without a prefix', () => {
    expect(problems(relay, { batchsize: 5 })).toEqual([
      'unknown option "batchsize", did you mean "batchSize"?',
    ])
  })

  test('a key that belongs one level deeper is found there', () => {
    expect(problems(whole, { wakeup: 'poll' })).toEqual([
      'unknown option "wakeup", did you mean "relay.wakeup"?',
    ])
  })

  test('a wrong word is answered with the near one', () => {
    expect(problems(relay, { wakeup: 'pol' }, 'relay')).toEqual([
      'expected relay.wakeup to be "auto" or "poll", got "pol" (did you mean "poll"?)',
    ])
    expect(problems(relay, { wakeup: 'constantly' }, 'relay')).toEqual([
      'expected relay.wakeup to be "auto" or "poll", got "constantly"',
    ])
  })

  test('a missing option says what it would be', () => {
    expect(problems(object({ exchange: string() }), {}, 'destinations.bus')).toEqual([
      'expected destinations.bus.exchange to be text, but it is missing',
    ])
  })

  test('all problems are told at once, and the first line is one sentence', () => {
    const written = { relay: { batchsize: 1, wakeup: 3 }, schema: '' }
    const all = problems(whole, written)
    expect(all).toHaveLength(3)
    const error = (() => {
      try {
        return resolveOptions(whole, written)
      } catch (e) {
        return e as Error
      }
    })() as Error
    expect(error.message.split('\n')).toEqual(all)
  })

  test('keys that are no words are quoted in the path', () => {
    const spec = record(object({ n: integer({ min: 0, max: 1 }) }))
    expect(problems(spec, { 'a.b': { n: 2 }, 'c-d': { n: 2 } }, 'destinations')).toEqual([
      'expected destinations["a.b"].n to be an integer from 0 to 1, got 2',
      'expected destinations.c-d.n to be an integer from 0 to 1, got 2',
    ])
  })

  test('a long value is cut', () => {
    const [message] = problems(relay, { wakeup: 'x'.repeat(5000) }, 'relay')
    expect(message!.length).toBeLessThan(200)
  })

  test('no problem is lost in a long list, but not all are printed', () => {
    const spec = object({})
    const written = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`key${i}`, 1]))
    expect(problems(spec, written)).toHaveLength(50)
    expect(() => resolveOptions(spec, written)).toThrow(/and 30 more$/)
  })
})

describe('secrets', () => {
  const secret = 'hunter2-hunter2'

  test('a secret of the wrong form is not printed', () => {
    const [message] = problems(string({ minLength: 40, secret: true }), secret, 'admin.token')
    expect(message).toBe(
      'expected admin.token to be text of at least 40 characters, got a text that is not shown (it may hold a secret)',
    )
  })

  test.each([
    `http://user:${secret}@host:port/`,
    `user:${secret}@host`,
    `ftp://user:${secret}@host/`,
    `http://user:${secret}@ho st/`,
    ` http://user:${secret}@[::1/`,
  ])('a malformed URL is never printed: %s', (written) => {
    const [message] = problems(url({ protocols: ['http', 'https'] }), written, 'hook')
    expect(message).toMatch(/^expected hook to be a URL that starts with http:\/\/ or https:\/\/, got /)
    expect(message).not.toContain(secret)
    expect(message).not.toContain('user:')
  })

  test('a URL whose password needs encoding is told so', () => {
    expect(problems(url({ protocols: ['http'] }), 'http://u:a#b/@h:1:2/', 'hook')[0]).toMatch(
      /write @, \/ and # in a user name or password as %40, %2F and %23/,
    )
  })

  test('a URL with a password under a key that expects something else is not printed', () => {
    const written = { batchSize: `postgres://u:${secret}@h/db`, wakeup: `amqp://u:${secret}@h` }
    expect(problems(relay, written).join()).not.toContain(secret)
  })

  test('a URL with a password that slipped into the place of a key is not printed', () => {
    expect(problems(relay, { [`postgres://u:${secret}@h/db`]: 1 }).join()).not.toContain(secret)
  })

  test('a value from a hidden source is not printed, whatever the option is', () => {
    const sources = new Map([['n', { name: 'the environment variable N', hidden: true }]])
    expect(problems(object({ n: integer({ min: 0, max: 9 }) }), { n: secret }, '', sources)).toEqual([
      'expected n to be an integer from 0 to 9, got a text that is not shown (it may hold a secret) from the environment variable N',
    ])
  })
})

describe('text from the environment and flags', () => {
  const spec = object({
    n: integer({ min: -5, max: 5 }).default(0),
    x: number({ min: 0, max: 1 }).default(0),
    b: boolean().default(false),
  })

  test.each([
    [{ n: '3' }, { n: 3 }],
    [{ n: '-3' }, { n: -3 }],
    [{ x: '.5' }, { x: 0.5 }],
    [{ b: 'true' }, { b: true }],
    [{ b: '0' }, { b: false }],
  ])('%j is read as a number or a truth value there', (written, result) => {
    const sources = fromText(...Object.keys(written))
    expect(resolveOptions(spec, written, { sources })).toMatchObject(result)
  })

  test.each([{ n: '3' }, { x: '0.5' }, { b: 'true' }])('%j is refused in a file', (written) => {
    expect(problems(spec, written)).toHaveLength(1)
  })

  test.each(['5o', '', ' 3', '0x3', '3e0', '1_0', 'Infinity', '6'])(
    '%j is no such integer there either',
    (n) => {
      const [message] = problems(spec, { n }, '', fromText('n'))
      expect(message).toMatch(
        /^expected n to be an integer from -5 to 5, got ".*" from VARIABLE_OF_N$|got an empty text/,
      )
    },
  )
})

describe('kinds of values', () => {
  test('text has at least one character unless said otherwise', () => {
    expect(problems(string(), '')).toHaveLength(1)
    expect(resolveOptions(string({ minLength: 0 }), '')).toBe('')
  })

  test('text follows its pattern, length and further check', () => {
    const spec = string({ maxLength: 3, pattern: /^[a-z]+$/, accepts: (t) => t !== 'bad' })
    expect(resolveOptions(spec, 'abc')).toBe('abc')
    for (const wrong of ['abcd', 'AB', 'bad']) expect(problems(spec, wrong)).toHaveLength(1)
  })

  test('a URL is kept as it was written', () => {
    expect(resolveOptions(url({ protocols: ['http'] }), 'HTTP://Host:80')).toBe('HTTP://Host:80')
  })

  test('a list names the index of what is wrong', () => {
    expect(problems(list(integer({ min: 0, max: 1 })), [0, 7, 1], 'codes')).toEqual([
      'expected codes[1] to be an integer from 0 to 1, got 7',
    ])
    expect(problems(list(string(), { min: 1 }), [], 'codes')).toEqual([
      'expected codes to be a list of at least 1, got an empty list',
    ])
    expect(problems(list(string()), 'x', 'codes')).toEqual(['expected codes to be a list, got "x"'])
  })

  test('a record keeps a key that is named like a property of every object', () => {
    const written = JSON.parse('{"constructor": 1, "__proto__": 2}') as Record<string, number>
    const resolved = resolveOptions(record(integer({ min: 0, max: 9 })), written)
    expect(Object.entries(resolved)).toEqual([
      ['constructor', 1],
      ['__proto__', 2],
    ])
  })

  test('an object that is an instance of a class is refused', () => {
    expect(problems(relay, new Date(), 'relay')).toEqual(['expected relay to be an object, got an object'])
  })

  const destination = variants('type', {
    webhook: object({ url: url({ protocols: ['http'] }) }),
    memory: object({ size: integer({ min: 1, max: 9 }).default(1) }),
  })

  test('a variant is chosen by its tag and keeps it', () => {
    expect(resolveOptions(destination, { type: 'memory' })).toEqual({ type: 'memory', size: 1 })
  })

  test.each([
    [{}, 'expected d.type to be "webhook" or "memory", but it is missing'],
    [
      { type: 'webhok' },
      'expected d.type to be "webhook" or "memory", got "webhok" (did you mean "webhook"?)',
    ],
    [{ type: 'memory', url: 'x' }, 'unknown option "d.url", expected one of size'],
    [{ type: 'toString' }, 'expected d.type to be "webhook" or "memory", got "toString"'],
    [7, 'expected d to be an object, got 7'],
  ])('a variant %j is refused', (written, message) => {
    expect(problems(destination, written, 'd')).toEqual([message])
  })

  test('an extended object keeps its own keys and check', () => {
    const spec = extend(
      object({ a: integer({ min: 0, max: 9 }) }, { check: ({ a }) => (a === 3 ? 'not three' : undefined) }),
      {
        b: boolean().default(true),
      },
    )
    expect(resolveOptions(spec, { a: 1 })).toEqual({ a: 1, b: true })
    expect(problems(spec, { a: 3 })).toEqual(['not three'])
  })

  test('either follows the choice', () => {
    const spec = either(
      [list(string()), instance<() => void>('a function', (v) => typeof v === 'function')] as const,
      (v) => (Array.isArray(v) ? 0 : 1),
    )
    expect(resolveOptions(spec, ['a'])).toEqual(['a'])
    expect(problems(spec, 'a', 'routes')).toEqual(['expected routes to be a function, got "a"'])
  })

  test('a check of the whole runs only when every part fits', () => {
    const spec = object(
      { min: integer({ min: 0, max: 9 }), max: integer({ min: 0, max: 9 }) },
      {
        check: ({ min, max }, path) =>
          min > max ? `expected ${path}.max to be above ${path}.min` : undefined,
      },
    )
    expect(problems(spec, { min: 3, max: 2 }, 'range')).toEqual(['expected range.max to be above range.min'])
    expect(problems(spec, { min: 3, max: 'x' }, 'range')).toHaveLength(1)
  })
})
