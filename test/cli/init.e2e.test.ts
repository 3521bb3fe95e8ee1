import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadBrokerSpecs } from '../../src/brokers/registry.ts'
import { loadConfiguration } from '../../src/configuration/load.ts'
import { createCli, temporaryFolder } from './cli.ts'

const load = (cwd: string, environment: Record<string, string>) =>
  loadConfiguration({ cwd, environment, needs: 'relay', loadBrokers: loadBrokerSpecs })

const databaseUrl = 'postgres://localhost/app'

test.each([
  ['yaml', /^# Configuration of Waybill/],
  ['ts', /^import \{ defineConfig \} from 'waybill\/config'/],
])('init --format %s writes a commented configuration that works as it is', async (format, start) => {
  const cwd = await temporaryFolder()
  const { code, stdout, stderr } = await createCli(cwd)(['init', '--format', format])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(
    /The next three steps:\n {2}1\. .*\n.*DATABASE_URL.*\n {2}2\. .*\n.* {5}npx waybill migrate\n {2}3\. .*\n {5}npx waybill relay\n.*node_modules\/\.bin\/waybill itself: npx .* SIGTERM/,
  )
  expect(await readFile(join(cwd, `waybill.config.${format}`), 'utf8')).toMatch(start)
  const { configuration } = await load(cwd, { DATABASE_URL: databaseUrl })
  expect(configuration).toMatchObject({
    databaseUrl,
    schema: 'waybill',
    destinations: { console: { type: 'stdout' } },
  })
})

test.each([
  ['yaml', /^( *)# ((?: *)(?:-|[\w]+:).*)$/],
  ['ts', /^( *)\/\/ ( *(?:[\w]+: .*|\{ .*\},|\w+: \[|\]|\},?|\],))$/],
])('every option that the %s template shows in a comment is one that exists', async (format, comment) => {
  const cwd = await temporaryFolder()
  await createCli(cwd)(['init', '--format', format])
  const path = join(cwd, `waybill.config.${format}`)
  const text = await readFile(path, 'utf8')
  const lines = text.split('\n').map((line) => line.replace(comment, '$1$2'))
  await writeFile(path, lines.join('\n'))
  const environment = {
    DATABASE_URL: databaseUrl,
    HOOK_SECRET: 'whsec_aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=',
    AMQP_URL: 'amqp://localhost',
    WAYBILL_TOKEN: 'a-long-token',
  }
  const { configuration } = await load(cwd, environment)
  expect(Object.keys(configuration.destinations)).toEqual(['console', 'hook', 'log', 'bus'])
  expect(configuration.routes).toHaveLength(3)
  // The template says that these are the defaults.
  const { configuration: plain } = await load(await temporaryFolder(), {}).catch(async () => {
    const other = await temporaryFolder()
    await createCli(other)(['init', '--format', format])
    return load(other, { DATABASE_URL: databaseUrl })
  })
  expect(configuration.relay).toEqual(plain.relay)
  // Without the pages at hand, the template is where a reader learns what can be set.
  for (const key of Object.keys(plain.relay)) expect(text).toContain(` ${key}: `)
  expect(configuration.retention).toEqual(plain.retention)
  expect(configuration.log).toEqual(plain.log)
  expect(configuration.admin).toMatchObject(plain.admin)
  expect(configuration.publications).toMatchObject({
    order: { source: { table: 'orders', id: 'id', revision: 'revision' }, consumers: ['billing'] },
  })
})

test('init never overwrites a configuration, whatever its format', async () => {
  const cwd = await temporaryFolder()
  const path = join(cwd, 'waybill.config.json')
  await writeFile(path, '{"mine": true}')
  const { code, stdout, stderr } = await createCli(cwd)(['init'])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toBe(`waybill: ${path} exists and was left as it is: edit it, or remove it first\n`)
  expect(await readFile(path, 'utf8')).toBe('{"mine": true}')
})

test('init writes where --config says, with the schema of --schema', async () => {
  const cwd = await temporaryFolder()
  const cli = createCli(cwd)
  const { code, stdout } = await cli(['init', '--config', 'deploy/outbox.yaml', '--schema', 'My"Schema'])
  expect(code).toBe(0)
  expect(stdout).toContain('waybill migrate --config deploy/outbox.yaml\n')
  const { configuration } = await loadConfiguration({
    cwd,
    configPath: 'deploy/outbox.yaml',
    environment: {},
    needs: 'schema',
    loadBrokers: loadBrokerSpecs,
  })
  expect(configuration.schema).toBe('My"Schema')
  expect(await cli(['init', '--config', 'outbox.toml'])).toMatchObject({ code: 2 })
})

test('init --json names the file and the steps', async () => {
  const cwd = await temporaryFolder()
  const result = await createCli(cwd)(['init', '--json'])
  expect(result.json()).toMatchObject({
    file: join(cwd, 'waybill.config.yaml'),
    next: [{}, {}, { note: expect.stringContaining('SIGTERM') }],
  })
})
