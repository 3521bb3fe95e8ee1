import { CommanderError } from 'commander'
import { WaybillError, cleanText, describeError } from '../errors.ts'
import { packageVersion } from '../version.ts'
import { pairAggregate } from './aggregate-option.ts'
import { createContext } from './context.ts'
import { exitCodeOf, exitCodes } from './exit-code.ts'
import { createOutput } from './output.ts'
import { createProgram } from './program.ts'
import { usageError } from './usage-error.ts'

/** Runs a command line to its end and sets the exit code of the process. */
export async function run(argv: readonly string[]): Promise<void> {
  const { stdout, stderr, env: environment } = process
  const terminal = { stdout, stderr, environment }
  let output = createOutput(terminal, { json: argv.includes('--json'), color: !argv.includes('--no-color') })
  const debug = argv.includes('--debug')
  let code: number = exitCodes.done

  // What nobody caught is told like any other error; the program is in no state to go on.
  process.on('uncaughtException', (error) => {
    stderr.write(errorText(error, { json: output.json, debug }))
    process.exit(exitCodes.failed)
  })
  const program = createProgram(packageVersion(), async (globals, action) => {
    output = createOutput(terminal, globals)
    code =
      (await action(createContext(globals, { output, cwd: process.cwd(), environment }))) ?? exitCodes.done
  })
  try {
    await program.parseAsync(pairAggregate(argv), { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) code = exitCodes.done
    else {
      const told = error instanceof CommanderError ? usageError(error, program, argv) : error
      code = exitCodeOf(told)
      stderr.write(errorText(told, { json: output.json, debug }))
    }
  }
  await output.flush()
  // Whatever is still open (a socket that hangs, a timer of a library) must not keep a finished command alive.
  process.exit(code)
}

/** What an error looks like on stderr: one sentence, or one line of JSON; a stack trace only on request. */
export function errorText(error: unknown, { json, debug }: { json: boolean; debug: boolean }): string {
  const { code, details }: { code: string; details: Readonly<Record<string, unknown>> } =
    error instanceof WaybillError ? error : { code: 'UNEXPECTED', details: {} }
  // One of ours says all in its message; anything else is told with its causes.
  const message = error instanceof WaybillError ? cleanText(error.message, 10_000) : describeError(error)
  if (json) return `${JSON.stringify({ error: { code, message, details } })}\n`
  const lines = [`waybill: ${message}`]
  const { file } = details
  if (typeof file === 'string' && isAboutFile(message, file)) lines.push(`  in ${file}`)
  if (code === 'UNEXPECTED' && !debug) lines.push('  run it again with --debug to see where this comes from')
  if (debug) lines.push(...stacks(error))
  return `${lines.join('\n')}\n`
}

/** Not when it names the file itself, or says that the value came from somewhere else. */
function isAboutFile(message: string, file: string): boolean {
  const elsewhere = /( from (--|WAYBILL_)\S+|^unknown environment variable .*)$/
  return !message.includes(file) && message.split('\n').some((line) => !elsewhere.test(line))
}

function stacks(error: unknown): string[] {
  const found: string[] = []
  for (let e = error; e instanceof Error && found.length < 5; e = e.cause) found.push(e.stack ?? e.message)
  return found
}
