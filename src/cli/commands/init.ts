import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, extname, relative, resolve } from 'node:path'
import { WaybillError, describeError } from '../../errors.ts'
import type { Action } from '../context.ts'
import { templates } from '../init-template.ts'

/** Writes a commented configuration that works as it is, and never over one that exists. */
export function initCommand({ format }: { format: 'yaml' | 'ts' }): Action {
  return async ({ output, cwd, globals }) => {
    const { configurationFileNames } = await import('../../configuration/file.ts')
    const path = resolve(cwd, globals.config ?? `waybill.config.${format}`)
    const template = templates[extname(path)]
    if (template === undefined) {
      throw new WaybillError(
        'USAGE_INVALID',
        `init writes a file that ends with .yaml, .yml or .ts, got ${path}`,
      )
    }
    const others =
      globals.config === undefined ? configurationFileNames.map((name) => resolve(cwd, name)) : []
    await refuseExisting([path, ...others])
    await write(path, template(globals.schema ?? 'waybill'))

    const file = relative(cwd, path)
    const config = globals.config === undefined ? '' : ` --config ${file}`
    const next = [
      {
        do: 'say where the database is',
        run: 'export DATABASE_URL=postgres://user:password@localhost:5432/app',
      },
      { do: 'make the tables', run: `npx waybill migrate${config}` },
      {
        do: 'start the relay: it prints each event as a line of JSON',
        run: `npx waybill relay${config}`,
        note: 'in production start node_modules/.bin/waybill itself: npx does not pass SIGTERM on',
      },
    ]
    output.data({ file: path, next })
    output.print(output.paint('green', `wrote ${file}`))
    output.print()
    output.print('The next three steps:')
    for (const [index, step] of next.entries()) {
      output.print(`  ${index + 1}. ${step.do}`)
      output.print(`     ${output.paint('cyan', step.run)}`)
      if (step.note !== undefined) output.print(`     (${step.note})`)
    }
    output.print()
    output.print('Then write your first event, in the transaction of your own change or with any SQL client:')
    output.print(output.paint('cyan', firstEvent(globals.schema ?? 'waybill')))
  }
}

function firstEvent(schema: string): string {
  const name = /^[a-z_][a-z0-9_]*$/.test(schema) ? schema : `"${schema.replaceAll('"', '""')}"`
  return `     INSERT INTO ${name}.outbox_events (aggregate_type, aggregate_id, event_type, payload)
     VALUES ('order', 'o-1', 'order.created', '{"total": 42}');`
}

async function refuseExisting(paths: readonly string[]): Promise<void> {
  const { access } = await import('node:fs/promises')
  for (const path of paths) {
    const exists = await access(path).then(
      () => true,
      () => false,
    )
    if (exists) throw refused(path)
  }
}

async function write(path: string, text: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true })
    // `wx` fails when the file appeared meanwhile.
    await writeFile(path, text, { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw refused(path)
    throw new WaybillError('ACTION_REFUSED', `cannot write ${path}: ${describeError(error, 300)}`, {
      cause: error,
    })
  }
}

function refused(path: string): WaybillError {
  return new WaybillError(
    'ACTION_REFUSED',
    `${path} exists and was left as it is: edit it, or remove it first`,
  )
}
