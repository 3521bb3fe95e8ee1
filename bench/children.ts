import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Answer, Command, Job } from './child/job.ts'
import { projectFolder } from './project.ts'

/** A process that does one job. */
export interface Child {
  /** Resolves when the child says that it is warm. */
  warm(): Promise<void>
  /** Sends a command and resolves with the child's next result. */
  ask<Result>(command: Command): Promise<Result>
  /** Resolves with the child's next result. */
  result<Result>(): Promise<Result>
  /** Tells it to stop, and waits for its end; kills it when it takes too long. */
  stop(): Promise<void>
}

export interface ChildOptions {
  /** The child is killed after so long. */
  timeoutMs: number
  /** Where to write a CPU profile. */
  profileFolder?: string | undefined
}

const stopMs = 10_000

/** Runs jobs in processes of their own: plain Node.js on compiled files, no loader beside what is measured. */
export interface Children {
  start(job: Job, options: ChildOptions): Child
  /** Ends whatever still runs, and removes the compiled files. */
  close(): Promise<void>
}

export function compileChildren(): Children {
  const folder = join(projectFolder, 'node_modules', '.cache', `waybill-bench-${process.pid}`)
  rmSync(folder, { recursive: true, force: true })
  const tsc = spawnSync(
    process.execPath,
    [
      join(projectFolder, 'node_modules/typescript/bin/tsc'),
      ...['-p', join(projectFolder, 'bench/tsconfig.json'), '--outDir', folder],
    ],
    { encoding: 'utf8' },
  )
  if (tsc.status !== 0) throw new Error(`the benchmark does not compile:\n${tsc.stdout}${tsc.stderr}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'waybill-bench', version: '0.0.0', type: 'module' }),
  )
  const running = new Set<Child>()
  let closed = false
  return {
    start(job, options) {
      if (closed) throw new Error('the benchmark stops')
      const process = fork(join(folder, 'bench/child/main.js'), [JSON.stringify(job)], {
        env: { ...globalThis.process.env, WAYBILL_BENCH_PROJECT: projectFolder, NODE_ENV: 'production' },
        execArgv:
          options.profileFolder === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', options.profileFolder],
        serialization: 'advanced',
      })
      const child = createChild(process, options.timeoutMs)
      running.add(child)
      process.once('exit', () => running.delete(child))
      return child
    },
    async close() {
      closed = true
      await Promise.all([...running].map((child) => child.stop()))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function createChild(process: ChildProcess, timeoutMs: number): Child {
  const answers: Answer[] = []
  let failure: Error | undefined
  let wake: (() => void) | undefined
  const ended = new Promise<void>((resolve) => process.once('exit', () => resolve()))
  const timer = setTimeout(() => {
    failure = new Error(`a child of the benchmark took more than ${timeoutMs} ms`)
    process.kill('SIGKILL')
  }, timeoutMs)

  process.on('message', (answer: Answer) => {
    answers.push(answer)
    wake?.()
  })
  process.on('error', (error) => {
    failure ??= error
    wake?.()
  })
  process.once('exit', (code, signal) => {
    clearTimeout(timer)
    failure ??= new Error(`a child of the benchmark ended (${code ?? signal}) before it answered`)
    wake?.()
  })

  async function next(): Promise<Answer> {
    for (;;) {
      const answer = answers.shift()
      if (answer?.kind === 'error') throw new Error(answer.error)
      if (answer !== undefined) return answer
      if (failure !== undefined) throw failure
      await new Promise<void>((resolve) => (wake = resolve))
    }
  }

  async function result<Result>(): Promise<Result> {
    const answer = await next()
    if (answer.kind !== 'result') throw new Error(`expected a result from a child, got "${answer.kind}"`)
    return answer.result as Result
  }

  return {
    async warm() {
      const answer = await next()
      if (answer.kind !== 'warm') throw new Error(`expected a child to be warm, got "${answer.kind}"`)
    },
    ask(command) {
      process.send(command)
      return result()
    },
    result,
    async stop() {
      if (process.connected) process.send('stop', () => undefined)
      const kill = setTimeout(() => process.kill('SIGKILL'), stopMs)
      if (process.exitCode === null && process.signalCode === null) await ended
      clearTimeout(kill)
    },
  }
}
