import { describeError } from '../../errors.ts'

/** Something that one owner knows, or does not, with where and when it was looked up. */
export type Fact<T> =
  | { readonly status: 'known'; readonly source: string; readonly at: string; readonly value: T }
  | { readonly status: 'unknown'; readonly source: string; readonly at: string; readonly reason: string }
  | { readonly status: 'not-configured'; readonly source: string }

/**
 * Looks one fact up. Fails alone and within its time: a fact that could not be found is a gap, never an answer.
 * Never rejects.
 */
export async function findFact<T>(
  source: string,
  timeoutMs: number,
  look: (signal: AbortSignal) => Promise<T>,
): Promise<Fact<T>> {
  const at = new Date().toISOString()
  const abort = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const late = new Error(`no answer within ${timeoutMs} ms`)
      reject(late)
      abort.abort(late)
    }, timeoutMs)
  })
  const work = look(abort.signal)
  work.catch(() => undefined)
  try {
    return { status: 'known', source, at, value: await Promise.race([work, limit]) }
  } catch (error) {
    return { status: 'unknown', source, at, reason: describeError(error, 300) }
  } finally {
    clearTimeout(timer)
  }
}

export function notConfigured(source: string): Fact<never> {
  return { status: 'not-configured', source }
}

/** What a known fact says; undefined for a gap. */
export function valueOf<T>(fact: Fact<T>): T | undefined {
  return fact.status === 'known' ? fact.value : undefined
}
