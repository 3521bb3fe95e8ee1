import { checkText } from '../../input.ts'
import type { RebuildReport, RebuiltPublication } from '../../publications/rebuild.ts'
import { printable } from '../../wording.ts'
import { readAggregate } from '../aggregate-option.ts'
import type { Action } from '../context.ts'
import { exitCodes } from '../exit-code.ts'
import { given } from '../flags.ts'
import type { Output } from '../output.ts'
import { interruption } from '../signals.ts'
import { plural } from '../text.ts'

export interface RebuildFlags {
  aggregate?: string
  consumer?: string
  reason?: string
}

/** Applies what the source has to a projection again; 1 when something is left. */
export function projectionRebuildCommand(name: string, flags: RebuildFlags): Action {
  const projection = checkText('projection', name, 100)
  const { consumer, reason } = flags
  const options = given({ aggregate: readAggregate(flags.aggregate), consumer, reason })
  return ({ output, withDatabase }) =>
    withDatabase(async (db, configuration) => {
      const { openFactSources } = await import('../../publications/fact-sources.ts')
      const { rebuildProjection } = await import('../../publications/rebuild.ts')
      const opened = openFactSources(db, configuration)
      const stop = interruption()
      const progress = await output.progress('rebuilt', () => Promise.resolve(null))
      try {
        const report = await rebuildProjection(opened.sources, opened.publications, projection, {
          ...options,
          signal: stop.signal,
          onProgress: (rebuilt) => progress.update(rebuilt),
        })
        progress.stop()
        output.data(report)
        tell(output, report)
        return report.complete ? exitCodes.done : exitCodes.failed
      } finally {
        progress.stop()
        stop.release()
        await opened.close()
      }
    })
}

const endings = {
  interrupted:
    'stopped early: what waits is rebuilt all the same; the same command begins again, which does no harm',
  'no-consumer':
    'stopped: no process of the consumer is at work any more; what waits is rebuilt when one starts, then repeat the command',
  'dead-letters': 'stopped: too many became dead letters; remove the reason, then repeat the command',
} as const

function tell(output: Output, { publications, stopped }: RebuildReport): void {
  for (const one of publications) tellOne(output, one)
  if (stopped !== null) output.print(output.paint('yellow', endings[stopped]))
}

function tellOne(output: Output, one: RebuiltPublication): void {
  const {
    publication,
    consumer,
    rebuilt,
    read,
    waiting,
    dead,
    deadReason,
    notPublished,
    tooLarge,
    notInSource,
  } = one
  const color = rebuilt === read ? 'green' : 'yellow'
  output.print(
    output.paint(
      color,
      `${printable(publication)}: rebuilt ${plural(rebuilt, 'aggregate')} of ${read.toLocaleString('en')} by ${printable(consumer)}`,
    ),
  )
  if (waiting > 0) output.print(`  ${plural(waiting, 'aggregate')} still to be taken by the consumer`)
  if (dead > 0) {
    output.print(`  ${plural(dead, 'dead letter')} of the consumer: ${printable(deadReason ?? '')}`)
    output.print(`  waybill consumer dead list --consumer ${printable(consumer)}`)
  }
  if (notPublished > 0)
    output.print(`  left alone ${plural(notPublished, 'aggregate')}: no revision that was handed over`)
  if (tooLarge > 0)
    output.print(`  left alone ${plural(tooLarge, 'aggregate')}: a history larger than 64 MiB`)
  if (notInSource !== null && notInSource > 0)
    output.print(`  left alone ${plural(notInSource, 'aggregate')} that the source does not have`)
}
