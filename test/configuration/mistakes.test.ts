import { describe, expect, test } from 'vitest'
import { failure, load, minimal, write } from './configuration-bench.ts'

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
    [
      { relay: { settle: 'delete' }, publications: { note: { source: { table: 'notes' } } } },
      'expected relay.settle to be "mark" where there are publications, since their diagnosis needs the rows, got "delete"',
    ],
    [
      { relay: { settle: 'delete' }, retention: { archive: { table: 'old' } } },
      'expected relay.settle to be "mark" where there is retention.archive, since "delete" leaves nothing to archive, got "delete"',
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

test('an unknown top-level key is refused by every command', async () => {
  await write('waybill.config.json', { ...minimal, destination: {} })
  expect(await failure({ needs: 'schema' })).toEqual([
    'unknown option "destination", did you mean "destinations"?',
  ])
})
