import { describeError, hasCode } from '../errors.ts'
import type { PublishResult } from '../publishing/publisher.ts'

/** Longest pause that a destination may ask for, in milliseconds. */
const maxPauseMs = 3_600_000

const published: PublishResult = Object.freeze({ status: 'published' })

/**
 * What a publisher answered about one message, made what its type says, so that whatever follows can rely on it: first
 * of all the statement that writes it into the table. Undefined when it is no answer.
 */
export function toResult(value: unknown): PublishResult | undefined {
  const { status, receipt, error, afterMs } = (value ?? {}) as Record<string, unknown>
  if (status === 'published') {
    const text = toReceipt(receipt)
    return text === undefined ? published : { status, receipt: text }
  }
  if (status !== 'retry' && status !== 'reject') return undefined
  const readable = toError(error) as Error
  const pauseMs = toPauseMs(afterMs)
  if (status === 'reject' || pauseMs === undefined) return { status, error: readable }
  return { status, error: readable, afterMs: pauseMs }
}

/** A text, or a number as text; anything else says nothing. */
export function toReceipt(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined
}

/** What was thrown or answered, or an error in its place where it cannot even be looked at. */
export function toError(error: unknown): unknown {
  try {
    hasCode(error, 'BROKER_UNAVAILABLE')
    requestedPauseMs(error)
    answerOf(error)
    return error
  } catch {
    return new Error(describeError(error))
  }
}

/** What a destination asked for with `Retry-After`, in milliseconds; undefined when it did not. */
export function requestedPauseMs(error: unknown): number | undefined {
  return toPauseMs((error as { details?: { afterMs?: unknown } } | null | undefined)?.details?.afterMs)
}

/** The short form of a refusal, to compare refusals with each other. */
export function answerOf(error: unknown): string {
  const answer = (error as { details?: { answer?: unknown } } | null | undefined)?.details?.answer
  return typeof answer === 'string' ? answer : describeError(error, 100)
}

function toPauseMs(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 ? Math.min(value, maxPauseMs) : undefined
}
