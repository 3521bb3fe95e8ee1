import { readFileSync } from 'node:fs'
import type { TestDatabase } from '../support/postgres.ts'

const guide = readFileSync(new URL('../../docs/guides/roles.md', import.meta.url), 'utf8')

/** The statements of the guide, as they stand there. */
export const grants = [...guide.matchAll(/```sql\n(.*?)```/gs)].flatMap(([, block]) =>
  block!.trim().split('\n'),
)

/** Those for one of the guide's roles, for another role and in the database and the schema at hand. */
export function grantsFor(database: TestDatabase, name: string, role: string): string[] {
  return grants
    .filter((line) => line.endsWith(` TO waybill_${name};`))
    .map((line) =>
      database.sql(
        line
          .replaceAll(`waybill_${name}`, role)
          .replace('DATABASE shop', `DATABASE ${database.name}`)
          .replaceAll(/\bwaybill(?=\.| TO )/g, '"waybill"'),
      ),
    )
}
