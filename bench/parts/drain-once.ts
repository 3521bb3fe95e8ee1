import type { DrainResult } from '../child/job.ts'
import { warmCaches } from '../fill.ts'
import type { Context } from '../part.ts'
import type { BenchDatabase, BenchServer } from '../server.ts'
import type { Entrant } from './contestants.ts'
import { targets, templateOf, warmUpOf } from './drain-tables.ts'

/** One drain by one contestant. */
export interface Drained extends DrainResult {
  /** From the first to the last call of the publisher. */
  eventsPerSecond: number
  /** Until the last event was settled in the table. */
  settledPerSecond: number
  /** CPU of the server in milliseconds. */
  serverCpuMs: number | null
}

/** Longest time for one drain with its warm-up; the slowest contestant needs a tenth of it on a quiet machine. */
const drainTimeoutMs = 400_000

/** Lets one contestant drain a fresh copy of its template. */
export async function drainCopy(context: Context, server: BenchServer, entrant: Entrant): Promise<Drained> {
  const { kind } = entrant
  const { rows, warmUpRows } = context.scale.drain
  const warmUp = await server.createDatabase('warm_up', warmUpOf(kind))
  const database = await server.createDatabase('bench', templateOf(kind))
  try {
    return await drainOnce(context, server, entrant, { warmUp, warmUpRows, database, rows })
  } finally {
    await warmUp.drop()
    await database.drop()
  }
}

export interface DrainTables {
  warmUp: BenchDatabase
  warmUpRows: number
  database: BenchDatabase
  rows: number
}

export async function drainOnce(
  { children, profileFolder }: Context,
  server: BenchServer,
  { title, kind, contestant }: Entrant,
  { warmUp, warmUpRows, database, rows }: DrainTables,
): Promise<Drained> {
  const child = children.start(
    {
      job: 'drain',
      contestant,
      warmUp: { url: warmUp.url, rows: warmUpRows },
      target: { url: database.url, rows },
    },
    { timeoutMs: drainTimeoutMs, profileFolder: contestant.kind === 'waybill' ? profileFolder : undefined },
  )
  try {
    await child.warm()
    await warmCaches(database, targets[kind].table)
    const cpuBefore = await server.cpuMs()
    const result = await child.ask<DrainResult>('go')
    const cpuAfter = await server.cpuMs()
    if (result.published !== rows)
      throw new Error(`${title}: published ${result.published} events of ${rows}`)
    return {
      ...result,
      eventsPerSecond: (rows / result.callsMs) * 1000,
      settledPerSecond: (rows / result.settledMs) * 1000,
      serverCpuMs: cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore,
    }
  } finally {
    await child.stop()
  }
}
