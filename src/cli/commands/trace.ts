import type { Action } from '../context.ts'
import { usageInvalid } from '../../input.ts'
import type { TraceRequest } from '../../publications/trace.ts'

/** The causal chain of one publication: by aggregate and revision, or by the id of its event. */
export function traceCommand(words: readonly string[], flags: { scope?: string }): Action {
  const [first, id, revision] = words
  if (first === undefined || words.length > 3) throw usageInvalid(usage)
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
      const { keyOfEvent, tracePublication } = await import('../../publications/trace.ts')
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
      } finally {
        await opened.close()
      }
    })
}

const usage =
  'expected an aggregate type, an id and mostly a revision ("waybill trace note n-42 7"), or the id of an event'
