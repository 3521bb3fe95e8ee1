import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createCli, temporaryFolder } from './cli.ts'

const cwd = await temporaryFolder()
const waybill = createCli(cwd)

test('--version and --help answer on stdout', async () => {
  const version = await waybill(['--version'])
  expect(version).toMatchObject({ code: 0, stderr: '' })
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  for (const args of [['--help'], ['dead', '--help'], ['dead', 'retry', '--help']]) {
    const help = await waybill(args)
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toMatch(/^Usage: waybill /)
  }
})

describe('wrong usage is one sentence and exit code 2', () => {
  test.each([
    [
      [],
      'waybill needs a command: init, migrate, relay, status, list, dead, trace, audit, intent, replay, projection, decisions, consumer, prune; see "waybill --help"',
    ],
    [['stat'], 'unknown command "stat", did you mean "status"?'],
    [['lst'], 'unknown command "lst", did you mean "list"?'],
    [['frobnicate'], 'unknown command "frobnicate", see "waybill --help"'],
    [['status', '--jsn'], 'unknown option "--jsn", did you mean "--json"?'],
    [['list', '--lmit', '5'], 'unknown option "--lmit", did you mean "--limit"?'],
    [['dead'], 'waybill dead needs a command: list, retry, discard; see "waybill dead --help"'],
    [['dead', 'retyr'], 'unknown command "retyr", did you mean "retry"?'],
    [
      ['migrate', 'now'],
      'waybill migrate takes no words, only options: --print, --to <version>, --dry-run; see "waybill migrate --help"',
    ],
    [['migrate', '--to'], 'option "--to <version>" argument missing, see "waybill migrate --help"'],
    [['migrate', '--to', '-1'], 'expected --to to be an integer from 0 to 9999, got "-1"'],
    [['migrate', '--to', 'x'], 'expected --to to be an integer from 0 to 9999, got "x"'],
    [['list', '--limit', '5o'], 'expected --limit to be an integer from 1 to 1000, got "5o"'],
    [['list', '--limit', '0'], 'expected --limit to be an integer from 1 to 1000, got "0"'],
    [['list', '--state', 'pendin'], 'unknown state "pendin", did you mean "pending"?'],
    [['list', '--aggregate', 'order'], '--aggregate needs a type and an id: --aggregate order o-17'],
    [
      ['dead', 'retry'],
      'say which dead letters: ids of events, or filters (--aggregate, --type, --error, --before), or --all',
    ],
    [
      ['dead', 'retry', '--all', '--type', 'a'],
      'choose one way to say which dead letters: ids of events, or filters (--aggregate, --type, --error, --before), or --all',
    ],
    [
      ['dead', 'retry', 'no-uuid'],
      'expected an event id to be a UUID such as 0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10, got "no-uuid"',
    ],
    [
      ['dead', 'discard', '--all'],
      'required option "--reason <text>" not specified, see "waybill dead discard --help"',
    ],
    [
      ['relay', '--port', '80a'],
      'expected admin.port to be an integer from 0 to 65535, got "80a" from --port',
    ],
  ])('waybill %j', async (args, message) => {
    await writeFile(
      join(cwd, 'waybill.config.json'),
      JSON.stringify({ databaseUrl: 'postgres://127.0.0.1:1/x', destinations: { out: { type: 'stdout' } } }),
    )
    expect(await waybill(args)).toMatchObject({ code: 2, stdout: '', stderr: `waybill: ${message}\n` })
  })

  test('with --json the error is one line of JSON', async () => {
    const result = await waybill(['--json', 'lst'])
    expect(result).toMatchObject({ code: 2, stdout: '' })
    expect(JSON.parse(result.stderr)).toEqual({
      error: { code: 'USAGE_INVALID', message: 'unknown command "lst", did you mean "list"?', details: {} },
    })
  })
})

describe('a wrong configuration is exit code 2', () => {
  const folder = temporaryFolder()
  const withConfig = async (config: unknown, args = ['status'], env: Record<string, string> = {}) => {
    await writeFile(join(await folder, 'waybill.config.json'), JSON.stringify(config))
    return createCli(await folder)(args, env)
  }

  test('with the key, the nearest known one, and the file', async () => {
    const { code, stdout, stderr } = await withConfig({
      databaseUrl: 'postgres://h/d',
      relay: { batchsize: 5 },
    })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr.split('\n')).toEqual([
      'waybill: unknown option "relay.batchsize", did you mean "relay.batchSize"?',
      `  in ${join(await folder, 'waybill.config.json')}`,
      '',
    ])
  })

  test('with the range of a number', async () => {
    const { code, stderr } = await withConfig({ databaseUrl: 'postgres://h/d', relay: { batchSize: '5o' } })
    expect(code).toBe(2)
    expect(stderr).toContain('waybill: expected relay.batchSize to be an integer from 1 to 10000, got "5o"\n')
  })

  test.each<[string, unknown, string[], Record<string, string>]>([
    ['in the file', { databaseUrl: 'postgres://app:hunter2@host:port/app' }, [], {}],
    ['in a variable', {}, [], { WAYBILL_DATABASE_URL: 'postgres://app:hunter2@host:port/app' }],
    ['in an option', {}, ['--database-url', 'postgres://app:hunter2@host:port/app'], {}],
    [
      'in an option, with --debug',
      {},
      ['--debug', '--database-url', 'postgres://app:hunter2@host:port/app'],
      {},
    ],
    [
      'in an option, with --json',
      {},
      ['--json', '--database-url', 'postgres://app:hunter2@host:port/app'],
      {},
    ],
    [
      'of a webhook',
      {
        databaseUrl: 'postgres://h/d',
        destinations: { a: { type: 'webhook', url: 'http://u:hunter2@h:x' } },
      },
      ['relay'],
      {},
    ],
  ])('a malformed URL %s is never echoed', async (_, config, args, env) => {
    const { code, stdout, stderr } = await withConfig(
      config,
      args.includes('relay') ? args : ['status', ...args],
      env,
    )
    expect(code).toBe(2)
    expect(stderr).toMatch(/to be a URL that starts with (postgres|http):\/\//)
    expect(stdout + stderr).not.toContain('hunter2')
  })

  test('without a database the sentence says where to put it', async () => {
    const { code, stderr } = await createCli(await temporaryFolder())(['status'])
    expect(code).toBe(2)
    expect(stderr).toMatch(
      /^waybill: expected databaseUrl to be .*"waybill init".*WAYBILL_DATABASE_URL or --database-url\n$/,
    )
  })

  test('an unknown variable that belongs to nothing is a warning', async () => {
    const { stderr } = await withConfig({ databaseUrl: 'postgres://127.0.0.1:1/d' }, ['status'], {
      WAYBILL_IMAGE: 'x',
    })
    expect(stderr).toMatch(
      /^waybill: warning: the environment variable WAYBILL_IMAGE belongs to no option and is ignored\n/,
    )
  })
})

describe('a database that does not answer is exit code 3', () => {
  const folder = temporaryFolder()

  test.each([['status'], ['list'], ['migrate'], ['prune'], ['dead', 'list'], ['dead', 'retry', '--all']])(
    'waybill %s %s %s',
    async (...args) => {
      const started = performance.now()
      const url = 'postgres://app:hunter2@127.0.0.1:1/app'
      const { code, stdout, stderr } = await createCli(
        await folder,
        url,
      )(args.filter((arg) => arg !== undefined))
      expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
      expect(stderr).toBe(
        'waybill: cannot use PostgreSQL at 127.0.0.1:1/app: connect ECONNREFUSED 127.0.0.1:1\n',
      )
      expect(performance.now() - started).toBeLessThan(5_000)
    },
  )

  test('also one that takes the connection and says nothing', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    try {
      const { port } = silent.address() as AddressInfo
      const { code, stderr } = await createCli(await folder, `postgres://127.0.0.1:${port}/app`)(['status'])
      expect(code).toBe(3)
      expect(stderr).toMatch(/^waybill: cannot use PostgreSQL at 127\.0\.0\.1:\d+\/app: .*\n$/)
    } finally {
      silent.close()
    }
  })

  test('with --json as JSON, with --debug and a stack trace', async () => {
    const cli = createCli(await folder, 'postgres://127.0.0.1:1/app')
    const { error } = JSON.parse((await cli(['status', '--json'])).stderr) as { error: { code: string } }
    expect(error.code).toBe('DATABASE_UNREACHABLE')
    const plain = await cli(['status'])
    const debug = await cli(['status', '--debug'])
    expect(plain.stderr).not.toMatch(/^\s+at /m)
    expect(debug.stderr).toMatch(/^\s+at /m)
  })
})
