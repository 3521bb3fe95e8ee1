import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { atEndOfFile } from './cleanups.ts'
import type { TestDatabase } from './postgres.ts'

export interface ProcessOptions {
  /** Added to PATH, HOME and TMPDIR: nothing else of this process is inherited. */
  env?: Record<string, string>
  /** Default: the project's folder. */
  cwd?: string
  /** Written to the standard input, which is then closed. Default: nothing to read. */
  input?: string
  /** Of what it prints. Default: UTF-8. */
  encoding?: BufferEncoding
}

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface TestProcess {
  readonly pid: number
  readonly stdout: string
  readonly stderr: string
  /** The lines of both streams that are complete so far, in the order they arrived. */
  readonly lines: readonly string[]
  /**
   * The first line of either stream that matches, also one that is there already (`from` skips that many).
   * Rejects, with all output, when the process ends or the limit passes without one.
   */
  line(pattern: RegExp, options?: { from?: number; timeoutMs?: number }): Promise<RegExpExecArray>
  signal(signal: NodeJS.Signals): void
  /** Resolves with the exit once the process has ended and its output is complete. */
  readonly exit: Promise<Exit>
  /** Kills it (SIGKILL) if it runs and waits for its end; done by itself at the end of the test file. */
  kill(): Promise<Exit>
}

export const projectFolder = fileURLToPath(new URL('../../', import.meta.url))

/** Starts a program; see {@link TestProcess}. */
export function startProcess(
  command: string,
  args: readonly string[],
  options: ProcessOptions = {},
): TestProcess {
  const child = spawn(command, args, {
    cwd: options.cwd ?? projectFolder,
    env: { ...inherited(), ...options.env },
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })
  // A process that ends early closes its input: its exit code tells more than EPIPE.
  child.stdin?.on('error', () => undefined).end(options.input)
  const output = collect(child, options.encoding)
  const exit = new Promise<Exit>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal }))
  })
  exit.catch(() => undefined)
  let ended = false
  const kill = (): Promise<Exit> => {
    if (!ended) child.kill('SIGKILL')
    return exit
  }
  exit.then(
    () => (ended = true),
    () => (ended = true),
  )
  atEndOfFile(() => kill().catch(() => undefined))

  return {
    get pid() {
      if (child.pid === undefined) throw new Error(`${command} did not start`)
      return child.pid
    },
    get stdout() {
      return output.stdout
    },
    get stderr() {
      return output.stderr
    },
    lines: output.lines,
    line: (pattern, { from = 0, timeoutMs = 20_000 } = {}) =>
      new Promise((resolve, reject) => {
        let next = from
        const look = (): void => {
          for (; next < output.lines.length; next++) {
            const match = new RegExp(pattern).exec(output.lines[next]!)
            if (match !== null) return finish(() => resolve(match))
          }
          if (ended) fail('ended')
        }
        const fail = (what: string): void =>
          finish(() =>
            reject(
              new Error(
                `the process ${what} without a line like ${pattern}; its output:\n${output.lines.join('\n')}`,
              ),
            ),
          )
        const timer = setTimeout(() => fail(`ran for ${timeoutMs} ms`), timeoutMs)
        const finish = (settle: () => void): void => {
          clearTimeout(timer)
          output.listeners.delete(look)
          settle()
        }
        output.listeners.add(look)
        exit.then(look, look)
        look()
      }),
    signal: (signal) => void child.kill(signal),
    exit,
    kill,
  }
}

/** Starts a script with this Node; a `.ts` file through tsx, in the same process. */
export function startNode(
  script: string,
  args: readonly string[] = [],
  options?: ProcessOptions,
): TestProcess {
  const loader = script.endsWith('.ts') ? ['--import', import.meta.resolve('tsx')] : []
  return startProcess(process.execPath, [...loader, script, ...args], options)
}

export interface CliOptions extends ProcessOptions {
  /** Where it works, as its variables say. */
  database?: Pick<TestDatabase, 'url' | 'schema'>
}

/** Starts `waybill` as built into dist/, which the set-up of the e2e tests makes. */
export function startCli(args: readonly string[], options: CliOptions = {}): TestProcess {
  const { database, ...rest } = options
  const env = { ...(database && variablesOf(database)), ...options.env }
  return startNode(`${projectFolder}dist/cli/main.js`, args, { ...rest, env })
}

/** The variables that lead `waybill` to a database. What is its default stays unsaid, so that the default is tested. */
export function variablesOf({ url, schema }: Pick<TestDatabase, 'url' | 'schema'>): Record<string, string> {
  return { WAYBILL_DATABASE_URL: url, ...(schema === 'waybill' ? {} : { WAYBILL_SCHEMA: schema }) }
}

/** Runs `waybill` to its end. */
export async function runCli(
  args: readonly string[],
  options?: CliOptions,
): Promise<Exit & { stdout: string; stderr: string }> {
  const run = startCli(args, options)
  const exit = await run.exit
  return { ...exit, stdout: run.stdout, stderr: run.stderr }
}

function inherited(): Record<string, string> {
  const names = ['PATH', 'HOME', 'TMPDIR', 'SystemRoot']
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])))
}

function collect(child: ChildProcess, encoding: BufferEncoding = 'utf8') {
  const output = { stdout: '', stderr: '', lines: [] as string[], listeners: new Set<() => void>() }
  for (const name of ['stdout', 'stderr'] as const) {
    let partial = ''
    const add = (text: string, last = false): void => {
      output[name] += text
      const pieces = (partial + text).split('\n')
      partial = last ? '' : pieces.pop()!
      output.lines.push(...(last ? pieces.filter((piece) => piece !== '') : pieces))
      for (const listener of output.listeners) listener()
    }
    child[name]!.setEncoding(encoding).on('data', (text: string) => add(text))
    child[name]!.on('end', () => add('', true))
  }
  return output
}
