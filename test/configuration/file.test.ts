import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cwd, databaseUrl, failure, load, minimal, write } from './configuration-bench.ts'

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

test('commands that need only the database do not load the brokers', async () => {
  await write('waybill.config.json', minimal)
  const loadBrokers = () => Promise.reject(new Error('not needed'))
  expect((await load({ needs: 'database', loadBrokers })).configuration.databaseUrl).toBe(databaseUrl)
})
