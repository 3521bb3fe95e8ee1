import { createRequire } from 'node:module'
import { join } from 'node:path'
import { projectFolder } from './project.ts'

/** The part of graphile-worker that is used here. It is installed for the benchmark only, so its types may be missing. */
export interface GraphileWorker {
  run(options: Record<string, unknown>): Promise<{ stop(): Promise<void>; promise: Promise<void> }>
  runMigrations(options: Record<string, unknown>): Promise<void>
  Logger: new (factory: () => () => void) => object
}

export const graphileMissing = 'graphile-worker is not installed: npm ci --prefix bench'

const requireFromBench = createRequire(join(projectFolder, 'bench', 'package.json'))

export function hasGraphile(): boolean {
  try {
    return requireFromBench.resolve('graphile-worker') !== ''
  } catch {
    return false
  }
}

/** @throws Error when it is not installed */
export function loadGraphile(): GraphileWorker {
  if (!hasGraphile()) throw new Error(graphileMissing)
  return requireFromBench('graphile-worker') as GraphileWorker
}
