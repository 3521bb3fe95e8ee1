import type { Action } from '../context.ts'
import { isEventId, usageInvalid } from '../../input.ts'
import type { TraceRequest } from '../../publications/trace.ts'
import { show } from '../../wording.ts'
import { exitCodes } from '../exit-code.ts'

/** The causal chain of one publication: by aggregate and revision, or by the id of its event. */
export function traceCommand(words: readonly string[], flags: { scope?: string }): Action {
  const [first, id, revision] = words
  if (first === undefined || words.length > 3) throw usageInvalid(usage)
  if (id === undefined && !isEventId(first)) throw usageInvalid(`${usage}; got ${show(first)} alone`)
  const asked: TraceRequest | string =
    id === undefined
      ? first
      : {
          ...{ type: first, id },
          ...(revision === undefined ? {} : { revision }),
          ...(flags.scope === undefined ? {} : { scope: flags.scope }),
        }
  return ({ output, withDatabase }) =>
    withDatabase(async (db, configuration) => {
      const { openFactSources } = await import('../../publications/fact-sources.ts')
      const { keyOfEvent, tellsAnything, tracePublication } = await import('../../publications/trace.ts')
      const { traceNewest } = await import('../../operations/trace-newest.ts')
      const { printTrace } = await import('../trace-text.ts')
      const opened = openFactSources(db, configuration)
      try {
        const { sources, publications } = opened
        const trace =
          typeof asked === 'string'
            ? await tracePublication(sources, publications, await keyOfEvent(sources, asked))
            : await traceNewest(sources, publications, asked)
        output.data(trace)
        printTrace(output, trace)
        return tellsAnything(trace) ? exitCodes.done : exitCodes.failed
      } finally {
        await opened.close()
      }
    })
}

const usage =
  'expected an aggregate type, an id and mostly a revision ("waybill trace note n-42 7"), or the id of an event, which is a UUID'
