import { describeError } from '../errors.ts'
import { aborted, pause, retryPauseMs } from '../pause.ts'
import type { Telemetry } from '../telemetry/events.ts'

/** Whether the database can be used; told once for each change. */
export interface DatabaseWatch {
  failed(error: unknown): void
  works(): void
  /** Waits until a statement gets through, or until a stop. Shared by all who wait. */
  back(lost?: AbortSignal): Promise<void>
}

const longestPauseMs = 5_000

export function createDatabaseWatch(options: {
  telemetry: Telemetry
  ping: () => Promise<unknown>
  stopping: AbortSignal
}): DatabaseWatch {
  const { telemetry, ping, stopping } = options
  let downSince: number | undefined
  let waiting: Promise<void> | undefined
  let failures = 0

  function works(): void {
    failures = 0
    if (downSince === undefined) return
    telemetry.emit('database.up', { downMs: performance.now() - downSince })
    downSince = undefined
  }

  async function untilBack(): Promise<void> {
    // What answers the ping may still refuse the real work (a missing privilege): the pauses go on growing.
    do {
      await pause(retryPauseMs(failures++, longestPauseMs), stopping)
    } while (!stopping.aborted && !(await answers(ping)))
    waiting = undefined
  }

  return {
    works,
    failed(error) {
      if (downSince !== undefined || stopping.aborted) return
      downSince = performance.now()
      telemetry.emit('database.down', { error: describeError(error, 500) })
    },
    async back(lost) {
      waiting ??= untilBack()
      if (lost === undefined) return waiting
      await Promise.race([waiting, aborted(lost)])
    },
  }
}

async function answers(ping: () => Promise<unknown>): Promise<boolean> {
  try {
    await ping()
    return true
  } catch {
    return false
  }
}
