import { hasCode } from '../errors.ts'
import { createSharedAbort } from '../pause.ts'
import {
  type Message,
  type PublishCall,
  type Publisher,
  type PublishResult,
  publishTimeout,
} from '../publishing/publisher.ts'
import { toError, toReceipt, toResult } from './publish-result.ts'

/** How one `publish()` call ended. All but `results` say nothing about the single events. */
export type CallOutcome =
  | { readonly results: readonly PublishResult[] }
  | { readonly unavailable: Error }
  | { readonly timedOut: Error }
  | { readonly threw: unknown }

/** After the signal a publisher has this long to say what got through, in milliseconds. */
const settleGraceMs = 250

/** Calls a publisher within a time limit, and trusts nothing of what comes back. Never rejects. */
export async function callPublisher(
  publisher: Publisher,
  messages: readonly Message[],
  { timeoutMs, signal, onPublished }: { timeoutMs: number } & PublishCall,
): Promise<CallOutcome> {
  // A publisher may listen once for each message of the call.
  const controller = createSharedAbort()
  const abort = () => controller.abort(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  let over = false
  // After the end of the call the events may be another relay's, or this relay's again.
  const early = (index: number, receipt?: string) => {
    if (!over) onPublished?.(index, toReceipt(receipt))
  }
  let timer: NodeJS.Timeout | undefined
  let grace: NodeJS.Timeout | undefined
  const limit = new Promise<CallOutcome>((resolve) => {
    timer = setTimeout(() => {
      const error = publishTimeout(`no answer within ${timeoutMs} ms`)
      controller.abort(error)
      grace = setTimeout(() => resolve({ timedOut: error }), settleGraceMs)
    }, timeoutMs)
  })
  try {
    return await Promise.race([
      attempt(publisher, messages, { signal: controller.signal, onPublished: early }),
      limit,
    ])
  } finally {
    over = true
    clearTimeout(timer)
    clearTimeout(grace)
    signal.removeEventListener('abort', abort)
  }
}

async function attempt(
  publisher: Publisher,
  messages: readonly Message[],
  call: PublishCall,
): Promise<CallOutcome> {
  try {
    const answer: unknown = await publisher.publish(messages, call)
    const results = resultsOf(answer)
    if (results?.length === messages.length) return { results }
    return {
      threw: new Error(
        `publisher ${publisher.name} did not answer with one result for each of ${messages.length} messages`,
      ),
    }
  } catch (thrown) {
    const error = toError(thrown)
    if (hasCode(error, 'BROKER_UNAVAILABLE')) return { unavailable: error }
    if (hasCode(error, 'PUBLISH_TIMEOUT')) return { timedOut: error }
    return { threw: error }
  }
}

/** Undefined when one of them is none. */
function resultsOf(answer: unknown): PublishResult[] | undefined {
  if (!Array.isArray(answer)) return undefined
  const results: PublishResult[] = []
  for (let i = 0; i < answer.length; i++) {
    const result = toResult(answer[i])
    if (result === undefined) return undefined
    results.push(result)
  }
  return results
}

/** What a call that ended without results means for an event of it. */
export function failureOfCall(outcome: CallOutcome): { status: 'retry' | 'threw'; error: unknown } {
  if ('unavailable' in outcome) return { status: 'retry', error: outcome.unavailable }
  if ('timedOut' in outcome) return { status: 'retry', error: outcome.timedOut }
  const error = 'threw' in outcome ? outcome.threw : new Error('the publisher gave no result')
  return { status: 'threw', error }
}

/** The first error of a call, or undefined when everything was published. */
export function errorOf(outcome: CallOutcome): unknown {
  if (!('results' in outcome)) return failureOfCall(outcome).error ?? new Error('thrown: undefined')
  for (const result of outcome.results) if (result.status !== 'published') return result.error
  return undefined
}
