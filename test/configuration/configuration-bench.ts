import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect } from 'vitest'
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
export const databaseUrl = 'postgres://app:hunter2@127.0.0.1:5432/app'
/** What a relay needs, and no more. */
export const minimal = { databaseUrl, destinations: { out: { type: 'stdout' } } }

/** The folder of the test, empty at its start: each test of a file that imports this has its own. */
export let cwd: string
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'waybill-configuration-'))
})
afterEach(() => rm(cwd, { recursive: true }))

/** Writes a file of the folder: text as it is, anything else as JSON. */
export const write = (name: string, content: unknown) =>
  writeFile(join(cwd, name), typeof content === 'string' ? content : JSON.stringify(content))

/** Loads from the folder, for a relay and with no environment unless told otherwise. */
export function load(options: Partial<LoadOptions> = {}): Promise<LoadedConfiguration> {
  return loadConfiguration({
    cwd,
    environment: {},
    needs: 'relay',
    loadBrokers: async () => brokers,
    ...options,
  })
}

/** The lines of the refusal, which holds no password. */
export async function failure(options: Partial<LoadOptions> = {}): Promise<string[]> {
  const error = await load(options).then(
    () => undefined,
    (e: unknown) => e,
  )
  expect(error).toBeInstanceOf(WaybillError)
  expect((error as WaybillError).code).toBe('CONFIGURATION_INVALID')
  expect((error as WaybillError).message).not.toContain('hunter2')
  return (error as WaybillError).message.split('\n')
}
