import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { variableName } from '../../src/configuration/environment.ts'
import {
  type LoadOptions,
  type LoadedConfiguration,
  loadConfiguration,
} from '../../src/configuration/load.ts'
import { WaybillError } from '../../src/errors.ts'
import { object, string, url } from '../../src/options.ts'

const brokers = {
  webhook: object({
    url: url({ protocols: ['http', 'https'] }),
    secret: string({ secret: true }).optional(),
  }),
  stdout: object({}),
}
const databaseUrl = 'postgres://app:hunter2@127.0.0.1:5432/app'
const minimal = { databaseUrl, destinations: { out: { type: 'stdout' } } }

let cwd: string
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'waybill-configuration-'))
})
afterEach(() => rm(cwd, { recursive: true }))

const write = (name: string, content: unknown) =>
  writeFile(join(cwd, name), typeof content === 'string' ? content : JSON.stringify(content))

function load(options: Partial<LoadOptions> = {}): Promise<LoadedConfiguration> {
  return loadConfiguration({
    cwd,
    environment: {},
    needs: 'relay',
    loadBrokers: async () => brokers,
    ...options,
  })
}

async function failure(options: Partial<LoadOptions> = {}): Promise<string[]> {
  const error = await load(options).then(
    () => undefined,
    (e: unknown) => e,
  )
  expect(error).toBeInstanceOf(WaybillError)
  expect((error as WaybillError).code).toBe('CONFIGURATION_INVALID')
  expect((error as WaybillError).message).not.toContain('hunter2')
  return (error as WaybillError).message.split('\n')
}

describe('the file', () => {
  test('of the contract is understood', async () => {
    await write('waybill.config.json', {
      databaseUrl: '${DATABASE_URL}',
      schema: 'waybill',
      destinations: {
        'orders-hook': { type: 'webhook', url: 'http://127.0.0.1:9000/events', secret: '${HOOK_SECRET}' },
        bus: { type: 'stdout' },
      },
      routes: [
        { aggregateType: 'order', to: 'orders-hook' },
        { eventType: 'invoice.*', to: 'bus', topic: 'billing' },
        { to: 'bus' },
      ],
      relay: {
        batchSize: 200,
        workers: 2,
        maxAttempts: 8,
        afterDeadLetter: 'continue',
        publishTimeoutMs: 10000,
        leaseMs: 10000,
        pollIntervalMs: 1000,
      },
      retention: { processedDays: 7 },
      admin: { host: '127.0.0.1', port: 4747, token: '${WAYBILL_TOKEN}' },
      publications: {
        note: {
          source: { table: 'notes', id: 'id', revision: 'revision', keeps: 'latest' },
          intent: { eventType: 'note.published', payload: "jsonb_build_object('id', id, 'body', body)" },
          pendingLimitSeconds: 30,
          owners: { relay: 'platform', read: 'web team' },
          projections: ['public_notes'],
          consumers: ['public-list'],
          reads: [
            {
              name: 'public list',
              url: 'http://127.0.0.1:8080/public/notes/{id}',
              revision: 'body.revision',
            },
          ],
        },
      },
    })
    const environment = { DATABASE_URL: databaseUrl, HOOK_SECRET: 'whsec_x', WAYBILL_TOKEN: 'a-long-token' }
    const { configuration, file, warnings } = await load({ environment })
    expect(configuration).toMatchObject({
      databaseUrl,
      destinations: { 'orders-hook': { type: 'webhook', secret: 'whsec_x', format: 'debezium' } },
      admin: { token: 'a-long-token' },
      log: { level: 'info' },
    })
    expect(file).toBe(join(cwd, 'waybill.config.json'))
    expect(warnings).toEqual([])
  })

  test.each([
    ['waybill.config.yaml', `databaseUrl: ${databaseUrl}\ndestinations:\n  out: { type: stdout }\n`],
    ['waybill.config.yml', `databaseUrl: ${databaseUrl}\ndestinations: { out: { type: stdout } }\n`],
    ['waybill.config.json', JSON.stringify(minimal)],
    ['waybill.config.json', `\uFEFF${JSON.stringify(minimal)}`],
    ['waybill.config.mjs', `export default ${JSON.stringify(minimal)}`],
    ['waybill.config.js', `module.exports = ${JSON.stringify(minimal)}`],
    ['waybill.config.js', `export default ${JSON.stringify(minimal)}`],
    [
      'waybill.config.ts',
      `import { defineConfig } from 'waybill/config'\nconst port: number = 4747\nexport default defineConfig({ ...${JSON.stringify(minimal)}, admin: { port } })`,
    ],
    ['waybill.config.ts', `export default async () => (${JSON.stringify(minimal)})`],
  ])('%s is found and read', async (name, content) => {
    await write(name, content)
    const { configuration } = await load()
    expect(configuration).toMatchObject({
      databaseUrl,
      destinations: { out: { type: 'stdout', format: 'debezium' } },
    })
  })

  test('in code may hold a function as routes and a ready publisher, which stays itself', async () => {
    await write(
      'waybill.config.mjs',
      `const publisher = { name: 'mine', capabilities: { ordering: 'batch', deduplication: false }, text: '\${HOME_OF_NOBODY}',
         async publish() { return [this === publisher] }, async close() {} }
       export default { databaseUrl: '${databaseUrl}',
         destinations: { mine: publisher, wrapped: { publisher, format: 'cloudevents' } },
         routes: (event) => ({ to: event.eventType === 'a' ? 'mine' : 'wrapped' }) }`,
    )
    const { configuration } = await load()
    const { mine, wrapped } = configuration.destinations as Record<string, any>
    expect(await mine.publish()).toEqual([true])
    expect(wrapped.publisher).toBe(mine)
    expect(wrapped.format).toBe('cloudevents')
    expect(configuration.routes).toBeTypeOf('function')
  })

  test('is not needed when the environment says enough', async () => {
    const { configuration, file } = await load({
      needs: 'database',
      environment: { WAYBILL_DATABASE_URL: databaseUrl },
    })
    expect(file).toBeNull()
    expect(configuration).toMatchObject({
      databaseUrl,
      schema: 'waybill',
      destinations: {},
      admin: { port: 4747 },
    })
  })

  test('may be named, also by a variable; the flag wins', async () => {
    await mkdir(join(cwd, 'deploy'))
    await write('deploy/a.json', { ...minimal, schema: 'a' })
    await write('b.yaml', `databaseUrl: ${databaseUrl}\nschema: b\ndestinations: { out: { type: stdout } }`)
    const environment = { WAYBILL_CONFIG: 'b.yaml' }
    expect((await load({ environment })).configuration.schema).toBe('b')
    expect((await load({ environment, configPath: 'deploy/a.json' })).configuration.schema).toBe('a')
  })

  test('that is named but missing is an error, two of them as well', async () => {
    expect((await failure({ configPath: 'nowhere.json' }))[0]).toBe(
      `there is no configuration file ${join(cwd, 'nowhere.json')}, "waybill init" writes one`,
    )
    await write('waybill.config.json', minimal)
    await write('waybill.config.yaml', '')
    expect(await failure()).toEqual([
      `${cwd} has waybill.config.json and waybill.config.yaml: keep one, or choose one with --config`,
    ])
  })

  test.each([
    [
      'waybill.config.json',
      `{\n  "databaseUrl": "${databaseUrl}",\n  "schema": hunter2\n}`,
      /is not valid JSON/,
    ],
    ['waybill.config.json', `{"databaseUrl": "${databaseUrl}"`, /is not valid JSON at line 1, column \d+$/],
    ['waybill.config.json', '', /is not valid JSON/],
    [
      'waybill.config.yaml',
      `databaseUrl: ${databaseUrl}\n  schema: x: hunter2`,
      /is not valid YAML at line \d+, column \d+ \(/,
    ],
    [
      'waybill.config.yaml',
      'schema: a\nschema: b',
      /is not valid YAML at line 2, column 1 \(duplicate key\)/,
    ],
    ['waybill.config.yaml', 'schema: *hunter2', /is not valid YAML/],
    ['waybill.config.ts', 'export default {', /^cannot load .*waybill\.config\.ts: /],
    ['waybill.config.ts', 'throw new Error("no such luck")', /^cannot load .*: no such luck$/],
    [
      'waybill.config.ts',
      'export const config = {}',
      /has no default export: write "export default defineConfig\(/,
    ],
    ['waybill.config.toml', '', /expected a file that ends with \.ts, \.js, \.mjs, \.json, \.yaml, \.yml/],
    ['waybill.config.yaml', '- a\n- b', /^expected the options to be an object, got a list$/],
    ['waybill.config.json', '"text"', /^expected the options to be an object, got "text"$/],
  ])('%s with %j is refused in one line', async (name, content, message) => {
    await write(name, content)
    const lines = await failure({ configPath: name })
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(message)
  })

  test('names itself in the details of an error about its content', async () => {
    await write('waybill.config.json', { ...minimal, schem: 'x' })
    await expect(load()).rejects.toMatchObject({
      message: 'unknown option "schem", did you mean "schema"?',
      details: { file: join(cwd, 'waybill.config.json') },
    })
  })
})

describe('what is wrong', () => {
  test.each([
    [{ relay: { batchSize: '5o' } }, 'expected relay.batchSize to be an integer from 1 to 10000, got "5o"'],
    [{ relay: { batchsize: 5 } }, 'unknown option "relay.batchsize", did you mean "relay.batchSize"?'],
    [{ relay: { leaseMs: 999 } }, 'expected relay.leaseMs to be an integer from 1000 to 600000, got 999'],
    [{ relay: 5 }, 'expected relay to be an object, got 5'],
    [{ admin: { port: 65_536 } }, 'expected admin.port to be an integer from 0 to 65535, got 65536'],
    [{ admin: { port: '80' } }, 'expected admin.port to be an integer from 0 to 65535, got "80"'],
    [{ batchSize: 5 }, 'unknown option "batchSize", did you mean "relay.batchSize"?'],
    [
      { schema: 'pg_x' },
      'expected schema to be a PostgreSQL name of 1 to 63 bytes that does not start with "pg_", got "pg_x"',
    ],
    [{ destinations: [] }, 'expected destinations to be an object, got an empty list'],
    [
      { destinations: { out: { type: 'stdot' } } },
      'expected destinations.out.type to be "webhook" or "stdout", got "stdot" (did you mean "stdout"?)',
    ],
    [
      { destinations: { out: { type: 'stdout', formt: 'x' } } },
      'unknown option "destinations.out.formt", did you mean "destinations.out.format"?',
    ],
    [
      { destinations: { out: { type: 'stdout', format: 'json' } } },
      'expected destinations.out.format to be "debezium", "cloudevents" or "cloudevents-structured", got "json"',
    ],
    [{ destinations: { out: 'stdout' } }, 'expected destinations.out to be an object, got "stdout"'],
    [{ destinations: {} }, 'expected destinations to name at least one destination, but there is none'],
    [{ routes: [{ to: 'nowhere' }] }, 'routes[0].to: unknown destination "nowhere", expected one of out'],
    [{ routes: [{ to: 'outt' }] }, 'routes[0].to: unknown destination "outt", did you mean "out"?'],
    [
      { routes: [{ eventtype: 'a', to: 'out' }] },
      'unknown option "routes[0].eventtype", did you mean "routes[0].eventType"?',
    ],
    [{ routes: [{}] }, 'expected routes[0].to to be text of 1 to 255 characters, but it is missing'],
    [
      { destinations: { a: { type: 'stdout' }, b: { type: 'stdout' } } },
      'expected routes to say which of the 2 destinations an event goes to (a, b); a last rule {"to": "a"} takes all the rest',
    ],
    [
      { publications: { note: { source: { table: 'notes', keep: 'latest' } } } },
      'unknown option "publications.note.source.keep", did you mean "publications.note.source.keeps"?',
    ],
    [{ publications: { note: {} } }, 'expected publications.note.source to be an object, but it is missing'],
    [
      { log: { level: 'warning' } },
      'expected log.level to be "trace", "debug", "info", "warn", "error" or "silent", got "warning"',
    ],
  ])('%j', async (change, message) => {
    await write('waybill.config.json', { ...minimal, ...change })
    expect(await failure()).toEqual([message])
  })

  test.each([
    'postgres://app:hunter2@host:port/app',
    'postgres://app:hunter2#x@host/app',
    'postgres://app:12/hunter2@host/app',
    'postgres://app:12#hunter2@host/app',
    'mysql://app:hunter2@host/app',
    'app:hunter2@host/app',
    'host=127.0.0.1 password=hunter2',
  ])('the database URL %j, without the password', async (written) => {
    await write('waybill.config.json', { ...minimal, databaseUrl: written })
    expect((await failure())[0]).toMatch(
      /^expected databaseUrl to be a URL that starts with postgres:\/\/ or postgresql:\/\//,
    )
  })

  test.each([
    'postgres://app:hunter2@host:5432/app?sslmode=require',
    'postgresql://host',
    'postgres:///app?host=/var/run/postgresql',
    'postgres://app@%2Fvar%2Frun%2Fpostgresql/app',
    'postgres://app:p%40ss%2Fw%23rd@[::1]:5432/app',
  ])('%j is a database URL', async (written) => {
    await write('waybill.config.json', { ...minimal, databaseUrl: written })
    expect((await load()).configuration.databaseUrl).toBe(written)
  })

  test('several things are told at once', async () => {
    await write('waybill.config.json', { ...minimal, relay: { batchSize: 0 }, admin: { prot: 1 } })
    expect(await failure()).toHaveLength(2)
  })

  test('a missing database URL says where it may be set', async () => {
    expect(await failure({ needs: 'database' })).toEqual([
      'expected databaseUrl to be a URL that starts with postgres:// or postgresql://, but it is missing: write a configuration with "waybill init", or use WAYBILL_DATABASE_URL or --database-url',
    ])
  })
})

describe('environment variables', () => {
  test('are named after the path of the option', () => {
    expect(variableName('databaseUrl')).toBe('WAYBILL_DATABASE_URL')
    expect(variableName('relay.afterDeadLetter')).toBe('WAYBILL_RELAY_AFTER_DEAD_LETTER')
  })

  test('win over the file, and flags win over them', async () => {
    await write('waybill.config.json', { ...minimal, schema: 'file', relay: { batchSize: 1, workers: 3 } })
    const environment = { WAYBILL_SCHEMA: 'environment', WAYBILL_RELAY_BATCH_SIZE: '2' }
    const { configuration } = await load({
      environment,
      flags: { schema: { name: '--schema', value: 'flag' } },
    })
    expect(configuration).toMatchObject({ schema: 'flag', relay: { batchSize: 2, workers: 3 } })
  })

  test('are named when their value is wrong', async () => {
    await write('waybill.config.json', minimal)
    expect(await failure({ environment: { WAYBILL_RELAY_BATCH_SIZE: '5o' } })).toEqual([
      'expected relay.batchSize to be an integer from 1 to 10000, got "5o" from WAYBILL_RELAY_BATCH_SIZE',
    ])
    expect(await failure({ flags: { 'admin.port': { name: '--port', value: 'x' } } })).toEqual([
      'expected admin.port to be an integer from 0 to 65535, got "x" from --port',
    ])
    expect(
      (await failure({ environment: { WAYBILL_DATABASE_URL: 'postgres://a:hunter2@h:x/' } }))[0],
    ).toMatch(/ from WAYBILL_DATABASE_URL$/)
  })

  test('with an unknown name are refused when a known one is near, otherwise told and ignored', async () => {
    await write('waybill.config.json', minimal)
    expect(await failure({ environment: { WAYBILL_RELAY_BATCHSIZE: '5' } })).toEqual([
      'unknown environment variable WAYBILL_RELAY_BATCHSIZE, did you mean WAYBILL_RELAY_BATCH_SIZE?',
    ])
    const environment = {
      WAYBILL_IMAGE_TAG: 'v7',
      WAYBILL_TEST_POSTGRES_URL: 'x',
      WAYBILL_PORT: 'tcp://10.0.0.7:4747',
      WAYBILL_ADMIN_PORT: 'tcp://10.0.0.8:4747',
      WAYBILL_SERVICE_HOST: '10.0.0.7',
      WAYBILL_PORT_4747_TCP_ADDR: '10.0.0.7',
    }
    const { configuration, warnings } = await load({ environment })
    expect(warnings).toEqual([
      'the environment variable WAYBILL_IMAGE_TAG belongs to no option and is ignored',
    ])
    expect(configuration.admin.port).toBe(4747)
  })
})

describe('${NAME}', () => {
  test('is replaced anywhere in a text, and a number or truth value is read from it', async () => {
    await write('waybill.config.json', {
      ...minimal,
      databaseUrl: 'postgres://app:${PASSWORD}@${HOST}/app',
      admin: { port: '${PORT}' },
    })
    const { configuration } = await load({ environment: { PASSWORD: 'p', HOST: 'h', PORT: '8080' } })
    expect(configuration).toMatchObject({ databaseUrl: 'postgres://app:p@h/app', admin: { port: 8080 } })
  })

  test('without a variable is one sentence with the variable and the key', async () => {
    await write('waybill.config.json', { ...minimal, admin: { token: '${TOKEN}' } })
    expect(await failure()).toEqual(['admin.token needs the environment variable TOKEN, which is not set'])
  })

  test('may be missing where something else wins, or where the command does not look', async () => {
    await write('waybill.config.json', {
      databaseUrl: '${DATABASE_URL}',
      destinations: { hook: { type: 'webhook', url: '${HOOK_URL}' } },
    })
    const environment = { WAYBILL_DATABASE_URL: databaseUrl }
    expect((await load({ needs: 'database', environment })).configuration.databaseUrl).toBe(databaseUrl)
    expect((await load({ needs: 'schema' })).configuration.schema).toBe('waybill')
    expect(await failure({ environment })).toEqual([
      'destinations.hook.url needs the environment variable HOOK_URL, which is not set',
    ])
  })

  test('is never printed, whatever the option', async () => {
    await write('waybill.config.json', {
      ...minimal,
      schema: 'pg_${SECRET}',
      relay: { batchSize: '${SECRET}' },
    })
    const lines = await failure({ environment: { SECRET: 'hunter2' } })
    expect(lines).toHaveLength(2)
    expect(lines[1]).toBe(
      'expected relay.batchSize to be an integer from 1 to 10000, got a text that is not shown (it may hold a secret) from the environment variable SECRET',
    )
  })

  test('that is set to nothing is told', async () => {
    await write('waybill.config.json', { ...minimal, admin: { token: '${TOKEN}' } })
    expect(await failure({ environment: { TOKEN: '' } })).toEqual([
      'expected admin.token to be printable ASCII text without spaces, got an empty text from the environment variable TOKEN',
    ])
  })

  test('of a wrong form is refused, and $${ is a plain ${', async () => {
    await write('waybill.config.json', { ...minimal, schema: '${A:-b}' })
    expect(await failure()).toEqual([
      'expected schema to name an environment variable as ${NAME}; write $${ for a plain ${',
    ])
    await write('waybill.config.json', { ...minimal, schema: '$${A}' })
    expect((await load()).configuration.schema).toBe('${A}')
  })

  test('may use a WAYBILL_ name without a warning', async () => {
    await write('waybill.config.json', { ...minimal, admin: { token: '${WAYBILL_TOKEN}' } })
    const environment = { WAYBILL_TOKEN: 'a-long-token' }
    expect((await load({ needs: 'database', environment })).warnings).toEqual([])
  })
})

test('commands that need only the database do not load the brokers', async () => {
  await write('waybill.config.json', minimal)
  const loadBrokers = () => Promise.reject(new Error('not needed'))
  expect((await load({ needs: 'database', loadBrokers })).configuration.databaseUrl).toBe(databaseUrl)
})

test('an unknown top-level key is refused by every command', async () => {
  await write('waybill.config.json', { ...minimal, destination: {} })
  expect(await failure({ needs: 'schema' })).toEqual([
    'unknown option "destination", did you mean "destinations"?',
  ])
})
