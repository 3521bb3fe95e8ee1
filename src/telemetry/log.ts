import pino from 'pino'
import { WaybillError } from '../errors.ts'
import { show } from '../wording.ts'
import type { Telemetry, TelemetryEventName, TelemetryEvents } from './events.ts'
import { type LogLevel, type LogLine, logFields, logLevels, logLines } from './log-lines.ts'

export interface LogOptions {
  /** Default: `info`. */
  level?: LogLevel
  /** Where the lines go. Default: standard error, so that a `stdout` destination keeps standard output for itself. */
  destination?: { write(line: string): void }
}

/** JSON lines about what happens: `time`, `level`, `msg`, `event` and the fields of the event in snake case. */
export interface Log {
  /** For lines that are no telemetry event. Never give it a payload. */
  readonly logger: pino.Logger
  /** Writes a line for each event of interest from now on; answers how to end that. */
  attach(telemetry: Telemetry): () => void
}

/** @throws CONFIGURATION_INVALID for an unknown level. */
export function createLog({ level = 'info', destination }: LogOptions = {}): Log {
  if (!logLevels.includes(level)) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `expected the log level to be one of ${logLevels.join(', ')}, got ${show(level)}`,
    )
  }
  const logger = pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    // Written at once: the last lines before a crash are the ones that matter.
    destination ?? pino.destination({ fd: 2, sync: true }),
  )
  return {
    logger,
    attach: (telemetry) => telemetry.onAny((name, event) => write(logger, name, event)),
  }
}

function write(
  logger: pino.Logger,
  name: TelemetryEventName,
  event: TelemetryEvents[TelemetryEventName],
): void {
  const line = logLines[name] as LogLine<TelemetryEventName>
  const level = typeof line.level === 'function' ? line.level(event) : line.level
  if (logger.isLevelEnabled(level)) logger[level](logFields(name, event), line.message)
}
