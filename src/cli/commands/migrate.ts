import { WaybillError } from '../../errors.ts'
import type { MigrateReport } from '../../schema/migrator.ts'
import type { Action, DatabaseConfiguration } from '../context.ts'
import { integerFlag } from '../flags.ts'
import type { Output } from '../output.ts'

export interface MigrateFlags {
  print?: boolean
  to?: string
  dryRun?: boolean
}

/** Applies the migrations, or prints them as SQL. */
export function migrateCommand({ print = false, to, dryRun = false }: MigrateFlags): Action {
  if (print && (to !== undefined || dryRun)) {
    throw new WaybillError(
      'USAGE_INVALID',
      'use --print alone: it prints every migration and changes nothing',
    )
  }
  const version = integerFlag('--to', to, { min: 0, max: 9999 })
  return async ({ output, load }) => {
    const { migrate, printMigrations } = await import('../../schema/migrator.ts')
    const { configuration } = await load(print ? 'schema' : 'database')
    const { schema, buckets, relay } = configuration
    const shape = { schema, buckets, wakeup: relay.wakeup }
    if (print) {
      const sql = printMigrations(shape)
      if (output.json) output.data({ schema, sql })
      else output.raw(sql)
      return
    }
    const { databaseUrl } = configuration as DatabaseConfiguration
    const report = await migrate({
      databaseUrl,
      ...shape,
      dryRun,
      ...(version === undefined ? {} : { to: version }),
    })
    output.data({ schema, ...report })
    tell(output, schema, report, dryRun)
  }
}

function tell(output: Output, schema: string, report: MigrateReport, dryRun: boolean): void {
  const name = JSON.stringify(schema)
  const { from, to, steps, applied } = report
  for (const { direction, version, name: step } of steps) {
    const verb = dryRun ? `would go ${direction}` : `went ${direction}`
    output.print(`  ${verb}: ${String(version).padStart(4, '0')} ${step}`)
  }
  if (steps.length === 0) {
    const wakeup = applied ? ', and its wake-up was switched' : ''
    output.print(`the schema ${name} is at version ${to} already${wakeup}`)
  } else if (dryRun) {
    output.print(`the schema ${name} would be at version ${to}, now it is at ${from}; nothing was changed`)
  } else {
    output.print(output.paint('green', `the schema ${name} is now at version ${to}, it was at ${from}`))
  }
}
