import { describe, expect, test } from 'vitest'
import { variableName } from '../../src/configuration/environment.ts'
import { databaseUrl, failure, load, minimal, write } from './configuration-bench.ts'

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
