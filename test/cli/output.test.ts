import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { pairAggregate, readAggregate } from '../../src/cli/aggregate-option.ts'
import { exitCodeOf } from '../../src/cli/exit-code.ts'
import { createOutput } from '../../src/cli/output.ts'
import { errorText } from '../../src/cli/run.ts'
import { columnsOf, cut, plural } from '../../src/cli/text.ts'
import { duration, printable } from '../../src/wording.ts'
import { WaybillError, errorCodes, type ErrorCode } from '../../src/errors.ts'
import { closest } from '../../src/wording.ts'

/** A stream that keeps what was written; `terminal` makes it one. */
function stream(terminal: boolean) {
  const written = Object.assign(new PassThrough(), { isTTY: terminal, columns: 120, text: '' })
  written.setEncoding('utf8').on('data', (chunk: string) => (written.text += chunk))
  return written
}

function setUp(
  options: { json?: boolean; color?: boolean; terminal?: boolean; environment?: Record<string, string> } = {},
) {
  const { json = false, color = true, terminal = true, environment = {} } = options
  const stdout = stream(terminal)
  const stderr = stream(terminal)
  return { stdout, stderr, output: createOutput({ stdout, stderr, environment }, { json, color }) }
}

describe('colour', () => {
  test('appears on a terminal', () => {
    expect(setUp().output.paint('red', 'dead')).toBe('\u001b[31mdead\u001b[39m')
  })

  test.each([
    ['a pipe', { terminal: false }],
    ['--no-color', { color: false }],
    ['NO_COLOR', { environment: { NO_COLOR: '1' } }],
    ['TERM=dumb', { environment: { TERM: 'dumb' } }],
  ])('does not with %s', (_, options) => {
    expect(setUp(options).output.paint('red', 'dead')).toBe('dead')
  })
})

describe('a table', () => {
  const columns = [
    { title: 'name', text: ([name]: [string, number]) => name, limit: 12 },
    { title: 'count', text: ([, count]: [string, number]) => String(count), align: 'right' as const },
    { title: 'last', text: () => 'x' },
  ]

  test('is aligned, also with wide and combining characters, and cut', async () => {
    const { stdout, output } = setUp({ terminal: false })
    output.table(
      [
        ['plain', 1],
        ['🦊日本', 10],
        ['e\u0301te\u0301', 100],
        ['a very long name', 1000],
      ],
      columns,
    )
    await output.flush()
    expect(stdout.text.split('\n')).toEqual([
      'name          count  last',
      'plain             1  x',
      '🦊日本           10  x',
      'e\u0301te\u0301             100  x',
      'a very long…   1000  x',
      '',
    ])
  })

  test('writes control characters as escapes', async () => {
    const { stdout, output } = setUp()
    output.table([['\u001b[2Jx\u202e', 1]], [{ title: 'name', text: ([name]: [string, number]) => name }])
    await output.flush()
    expect(stdout.text).toContain('\\u001b[2Jx\\u202e')
  })
})

describe('with --json', () => {
  test('stdout holds the data alone and stderr nothing', async () => {
    const { stdout, stderr, output } = setUp({ json: true })
    output.print('for people')
    output.table([1], [{ title: 'n', text: String }])
    output.note('a hint')
    output.data({ n: 1 })
    const progress = await output.progress('working', async () => 10)
    progress.update(5)
    progress.stop()
    await output.flush()
    expect(stdout.text).toBe('{"n":1}\n')
    expect(stderr.text).toBe('')
  })

  test('without it data says nothing', async () => {
    const { stdout, output } = setUp()
    output.data({ n: 1 })
    await output.flush()
    expect(stdout.text).toBe('')
  })
})

describe('progress', () => {
  test('is a bar on the error stream of a terminal, and is cleared at the end', async () => {
    const { stdout, stderr, output } = setUp()
    const progress = await output.progress('retried', async () => 10)
    progress.update(5)
    progress.stop()
    progress.stop()
    await output.flush()
    expect(stderr.text).toContain('retried')
    expect(stderr.text).toContain('5/10')
    expect(stdout.text).toBe('')
  })

  test.each([{ terminal: false }, { environment: { TERM: 'dumb' } }])(
    'is absent with %j',
    async (options) => {
      const { stderr, output } = setUp(options)
      const progress = await output.progress('retried', async () => 10)
      progress.update(5)
      progress.stop()
      expect(stderr.text).toBe('')
    },
  )
})

test('output goes nowhere once the reader is gone, and nothing throws', async () => {
  const { stdout, output } = setUp({ terminal: false })
  stdout.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
  await new Promise((resolve) => setImmediate(resolve))
  expect(output.closed).toBe(true)
  output.print('more')
  output.raw('more')
  await output.flush()
})

describe('errors', () => {
  test.each(Object.keys(errorCodes) as ErrorCode[])('%s has an exit code of the contract', (code) => {
    const expected: Partial<Record<ErrorCode, number>> = {
      CONFIGURATION_INVALID: 2,
      USAGE_INVALID: 2,
      DEPENDENCY_MISSING: 2,
      DATABASE_UNREACHABLE: 3,
      DATABASE_TIMEOUT: 3,
    }
    expect(exitCodeOf(new WaybillError(code, 'x'))).toBe(expected[code] ?? 1)
  })

  test.each([new Error('x'), undefined, 'text', { code: 'USAGE_INVALID' }])('%j is exit code 1', (error) => {
    expect(exitCodeOf(error)).toBe(1)
  })

  test('are one sentence, with a stack trace only on request', () => {
    const error = new WaybillError('USAGE_INVALID', 'no such thing', { cause: new Error('deeper') })
    expect(errorText(error, { json: false, debug: false })).toBe('waybill: no such thing\n')
    const debug = errorText(error, { json: false, debug: true })
    expect(debug.match(/^\s+at /gm)!.length).toBeGreaterThan(1)
  })

  test('that nobody expected say how to learn more', () => {
    expect(errorText(new TypeError('x is not a function'), { json: false, debug: false })).toBe(
      'waybill: x is not a function\n  run it again with --debug to see where this comes from\n',
    )
  })

  test('about the content of a file name it, unless the value came from elsewhere', () => {
    const about = (message: string) =>
      errorText(
        new WaybillError('CONFIGURATION_INVALID', message, { details: { file: '/a/waybill.config.json' } }),
        {
          json: false,
          debug: false,
        },
      )
    expect(about('unknown option "a"')).toMatch(/\n {2}in \/a\/waybill\.config\.json\n$/)
    expect(about('expected admin.port to be x, got "y" from --port')).not.toContain('/a/')
    expect(about('cannot load /a/waybill.config.json: x')).not.toMatch(/\n {2}in/)
  })
})

describe('--aggregate', () => {
  test.each([
    [
      ['list', '--aggregate', 'order', '-5'],
      ['order', '-5'],
    ],
    [
      ['list', '--aggregate', '--all', '--json', '--limit', '1'],
      ['--all', '--json'],
    ],
  ])('%j takes the next two words, whatever they look like', (argv, pair) => {
    const paired = pairAggregate(argv)
    expect(paired).toHaveLength(argv.length - 2)
    expect(readAggregate(paired[1]!.slice('--aggregate='.length))).toEqual(pair)
  })

  test('behind -- it is a word like any other', () => {
    const argv = ['list', '--', '--aggregate', 'a', 'b']
    expect(pairAggregate(argv)).toEqual(argv)
  })

  test.each(['order', '["a"]', '{}'])('%s is refused', (text) => {
    expect(() => readAggregate(text)).toThrow('--aggregate needs a type and an id')
  })
})

describe('words', () => {
  test.each([
    ['batchsize', 'batchSize'],
    ['batch_size', 'batchSize'],
    ['wakup', 'wakeup'],
    ['ret', 'retention'],
    ['colour', undefined],
    ['', undefined],
  ])('the word nearest to %j is %j', (word, expected) => {
    expect(closest(word, ['batchSize', 'wakeup', 'retention'])).toBe(expected)
  })

  test.each([
    [0.0004, '0 ms'],
    [0.25, '250 ms'],
    [1, '1 s'],
    [61, '1 min 1 s'],
    [3_600, '1 h'],
    [90_061, '1 d 1 h'],
  ])('%d seconds are %s', (seconds, text) => {
    expect(duration(seconds)).toBe(text)
  })

  test('counts have their noun', () => {
    expect([plural(0, 'event'), plural(1, 'event'), plural(12_345, 'event')]).toEqual([
      '0 events',
      '1 event',
      '12,345 events',
    ])
  })

  test('columns are counted as a terminal shows them', () => {
    expect([columnsOf('abc'), columnsOf('🦊'), columnsOf('e\u0301'), columnsOf('日本')]).toEqual([3, 2, 1, 4])
    expect(cut('abcdef', 4)).toBe('abc…')
    expect(cut('abcd', 4)).toBe('abcd')
    expect(printable('a\nb\tc')).toBe('a\\nb\\u0009c')
  })
})
