import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Children, compileChildren } from './children.ts'
import { type Flags, parseFlags, usage } from './flags.ts'
import { describeMachine } from './machine.ts'
import type { Context, Figure, Part, Section } from './part.ts'
import { auditPart } from './parts/audit.ts'
import { claimPart } from './parts/claim.ts'
import { entrants } from './parts/contestants.ts'
import { drainPart } from './parts/drain.ts'
import { latencyPart } from './parts/latency.ts'
import { logicalPart } from './parts/logical.ts'
import { memoryPart } from './parts/memory.ts'
import { operationsPart } from './parts/operations.ts'
import { producersPart } from './parts/producers.ts'
import { publishersPart, stopBrokers } from './parts/publishers.ts'
import { projectFolder } from './project.ts'
import { type Report, toJson, toMarkdown } from './report.ts'
import { chooseScale } from './scale.ts'
import { serverSettings, serverVersion, stopServers } from './server.ts'

const parts: readonly Part[] = [
  drainPart,
  logicalPart,
  producersPart,
  latencyPart,
  claimPart,
  memoryPart,
  publishersPart,
  operationsPart,
  auditPart,
]

const began = performance.now()
let interrupted = false

function log(text: string): void {
  process.stderr.write(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${text}\n`)
}

async function main(): Promise<void> {
  let flags: Flags
  try {
    flags = parseFlags(process.argv.slice(2), {
      parts: parts.map(({ name }) => name),
      contestants: entrants.map(({ key }) => key),
    })
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}\n`)
    process.exitCode = 2
    return
  }
  if (flags.help) return void process.stdout.write(`${usage}\n`)
  const children = compileChildren()
  stopOnSignals(children)
  try {
    const report = await measure(flags, children)
    if (interrupted) return
    if (flags.write) writeFileSync(join(projectFolder, 'bench', 'RESULTS.md'), `${toMarkdown(report)}\n`)
    process.stdout.write(`${flags.json ? JSON.stringify(toJson(report)) : toMarkdown(report)}\n`)
  } finally {
    await children.close()
  }
}

async function measure(flags: Flags, children: Children): Promise<Report> {
  const startedAt = new Date().toISOString()
  const machine = describeMachine()
  const context: Context = {
    scale: chooseScale(flags.quick, flags.rounds),
    children,
    log,
    contestants: flags.contestants,
    withoutTools: flags.withoutTools,
    profileFolder: flags.profileFolder,
  }
  if (flags.quick) log('quick: a tenth of the rows or less, the figures say little')
  const figures: Record<string, Figure> = {}
  const sections: Section[] = []
  for (const part of parts) {
    if (interrupted) break
    if (flags.only !== undefined && !flags.only.includes(part.name)) {
      for (const path of part.owes) figures[path] = { missing: 'left out with --only' }
      continue
    }
    try {
      const result = await part.run(context)
      for (const path of part.owes) figures[path] = result.figures[path] ?? { missing: 'not measured' }
      sections.push(...result.sections)
    } catch (error) {
      if (interrupted) break
      const text = error instanceof Error ? error.message : String(error)
      log(`${part.name} failed: ${text}`)
      for (const path of part.owes) figures[path] = { missing: `failed: ${text.split('\n')[0]}` }
      process.exitCode = 1
    }
  }
  return {
    machine,
    postgres: serverVersion() ?? 'not started',
    settings: serverSettings(),
    quick: flags.quick,
    startedAt,
    minutes: Number(((performance.now() - began) / 60_000).toFixed(1)),
    figures,
    sections,
  }
}

/** Takes the servers and the children away; whatever waits for them then fails, and the run ends. */
function stopOnSignals(children: Children): void {
  const codes = { SIGINT: 130, SIGTERM: 143 }
  for (const signal of Object.keys(codes) as (keyof typeof codes)[]) {
    process.once(signal, () => {
      interrupted = true
      process.exitCode = codes[signal]
      log(`${signal}: stops`)
      void Promise.all([children.close(), stopServers(), stopBrokers()])
    })
  }
}

await main()
