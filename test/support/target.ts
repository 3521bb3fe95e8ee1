import { bundledMajor } from '../../scripts/embedded-postgres.ts'

/** The schema of every test database that asks for no other one. */
export const testSchema = process.env['WAYBILL_TEST_SCHEMA'] || 'waybill'

/** The major of every PostgreSQL that a test starts, and of the one that the whole run shares. */
export const testMajor = Number(process.env['WAYBILL_TEST_POSTGRES_MAJOR'] || bundledMajor)

/** What a message would be in the schema `waybill`; only names as messages quote them, not as SQL does. */
export function asDefault(message: string): string {
  return message.replaceAll(JSON.stringify(testSchema), '"waybill"')
}
