import { cleanText, describeError } from '../../errors.ts'
import {
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
  undeliverable,
  unprepared,
} from '../../publishing/publisher.ts'
import { PrivateAddressError } from './addresses.ts'
import { type AnswerMeaning, meaningOf, retryAfterMs } from './answers.ts'
import { type Answer, NoAnswer } from './exchange.ts'
import type { Target } from './targets.ts'

export interface Outcome {
  readonly result: PublishResult
  /** False when no connection was made. */
  readonly connected: boolean
}

export interface JudgeRules {
  readonly answers: Readonly<Record<string, AnswerMeaning>>
  readonly classify?: (answer: Answer) => AnswerMeaning | undefined
}

export interface Judge {
  answer(answer: Answer, target: Target): PublishResult
  failure(error: unknown, target: Target): Outcome
}

/** Turns what came back into a result. Of an address only the origin is shown: its path may be a secret. */
export function createJudge(rules: JudgeRules, secrets: readonly string[]): Judge {
  const { answers, classify } = rules

  return {
    answer(answer, { url, computed }) {
      const { status, headers } = answer
      const meaning = classify?.(answer) ?? answers[status] ?? meaningOf(status)
      if (meaning === 'published') return { status: 'published', receipt: `http:${status}` }
      const text = `${url.origin} answered ${status}${hint(status)}${quote(answer.text, secrets)}`
      if (meaning === 'reject') return { status: 'reject', error: rejectedBy(`HTTP ${status}`, text) }
      const afterMs = retryAfterMs(headers['retry-after'], Date.now())
      const after = afterMs === undefined ? {} : { afterMs }
      // What one of many hosts says is no word about the others.
      const error =
        meaning === 'unavailable' && !computed ? brokerUnavailable(text, after) : publishFailed(text)
      return { status: 'retry', error, ...after }
    },
    failure(error, { url, computed }) {
      if (error instanceof NoAnswer) {
        const text = `POST to ${url.origin} failed: ${describeError(error, 300)}`
        if (isPrivateAddressError(error.cause)) return rejected(privateAddress(url))
        const cause = { cause: error }
        const failed = error.sent || computed ? publishTimeout(text, cause) : brokerUnavailable(text, cause)
        return { result: { status: 'retry', error: failed }, connected: error.sent || computed }
      }
      if (isPrivateAddressError(error)) return rejected(privateAddress(url))
      // One event must not fail its neighbours, whatever it is.
      return { result: unprepared(error), connected: true }
    },
  }
}

function rejected(error: Error): Outcome {
  return { result: { status: 'reject', error }, connected: true }
}

function isPrivateAddressError(error: unknown): boolean {
  return (
    error instanceof PrivateAddressError ||
    (error instanceof AggregateError && error.errors.some(isPrivateAddressError))
  )
}

function privateAddress(url: URL): Error {
  return undeliverable(
    `the route gave an address on ${url.host}, which is not public: set allowPrivateAddresses if it is meant to be reached`,
  )
}

function hint(status: number): string {
  return status >= 300 && status < 400 ? ', redirects are not followed: configure the new address' : ''
}

/** What the receiver said, short, on one line and without the secrets that were sent to it. */
function quote(text: string, secrets: readonly string[]): string {
  let shown = text
  for (const secret of secrets) if (secret.length > 3) shown = shown.replaceAll(secret, '***')
  shown = cleanText(shown.replace(/\s+/g, ' ').trim(), 200)
  return shown === '' ? '' : `: ${shown}`
}
