/** What an answer means for the event that was sent. */
export type AnswerMeaning = 'published' | 'retry' | 'reject' | 'unavailable'

export const answerMeanings = ['published', 'retry', 'reject', 'unavailable'] as const

// The receiver, or what stands before it, takes no work now: nothing about this event.
const unavailable = new Set([401, 403, 407, 408, 425, 429, 502, 503, 504])
// The receiver has looked at this event and will never take it.
const never = new Set([400, 404, 405, 410, 413, 415, 422])

/** The meaning of a status. A redirect is not followed: the configured address is out of date, not the event. */
export function meaningOf(status: number): AnswerMeaning {
  if (status >= 200 && status < 300) return 'published'
  if (never.has(status)) return 'reject'
  return unavailable.has(status) || (status >= 300 && status < 400) ? 'unavailable' : 'retry'
}

// A receiver that asks for more is mostly mistaken, and nothing would be sent to it for so long.
const longestMs = 3_600_000

/**
 * `Retry-After` in either form, as milliseconds from now: 0 to one hour, undefined when it is missing or
 * cannot be read.
 */
export function retryAfterMs(header: string | string[] | undefined, nowMs: number): number | undefined {
  const text = (Array.isArray(header) ? header[0] : header)?.trim()
  if (text === undefined || text === '') return undefined
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), longestMs)
}
