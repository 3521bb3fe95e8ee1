import { codeOf } from './answers.ts'
import { createBatcher } from './batcher.ts'
import type { Queue } from './queue.ts'

/** A message that is ours for as long as it is renewed. */
export interface Held {
  readonly handle: string
  /** Aborts when it may be another's: it was not renewed in time, or SQS says so. */
  readonly lost: AbortController
}

export interface HoldOptions {
  visibilitySeconds: number
  /** Ends everything. */
  signal: AbortSignal
}

interface Renewal {
  /** `performance.now()` */
  until: number
  /** One that is under way. */
  asked: Promise<void>
}

/** The messages at work: keeps them hidden from others, deletes them, gives them back. */
export interface Hold {
  add(handle: string): Held
  /** Resolves when the message is deleted, or cannot be: then it comes again. */
  remove(held: Held): Promise<void>
  /** Shows the message again after so many seconds. Resolves however that ends: at the worst it is shown later. */
  giveBack(held: Held, seconds: number): Promise<void>
}

/** The message is not ours any more: shown again, or hidden for the twelve hours that are allowed. */
const lostCodes = new Set(['ReceiptHandleIsInvalid', 'MessageNotInflight', 'InvalidParameterValue'])
const retryMs = 500
/** A day and more, which SQS does not take. */
const longestSeconds = 43_200

export function createHold(
  queue: Pick<Queue, 'hide' | 'remove'>,
  { visibilitySeconds, signal }: HoldOptions,
): Hold {
  const visibilityMs = visibilitySeconds * 1000
  const held = new Map<Held, Renewal>()
  const renewals = createBatcher(renewAll)
  const removals = createBatcher(removeAll)
  const returns = createBatcher(returnAll)
  let timer: NodeJS.Timeout | undefined
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })

  function add(handle: string): Held {
    const item: Held = { handle, lost: new AbortController() }
    held.set(item, { until: performance.now() + visibilityMs, asked: Promise.resolve() })
    timer ??= setInterval(tick, visibilityMs / 3)
    return item
  }

  function release(item: Held): void {
    held.delete(item)
    if (held.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  function tick(): void {
    const now = performance.now()
    for (const [item, renewal] of held) {
      if (item.lost.signal.aborted) continue
      if (now >= renewal.until) item.lost.abort()
      else renewal.asked = renewals.add(item)
    }
  }

  async function renewAll(items: readonly Held[]): Promise<void> {
    const asked = performance.now()
    try {
      const failed = failuresOf(
        await queue.hide(
          items.map(({ handle }) => ({ handle, seconds: visibilitySeconds })),
          signal,
        ),
      )
      items.forEach((item, number) => {
        const code = failed.get(number)
        const at = held.get(item)
        if (code === undefined && at !== undefined) at.until = asked + visibilityMs
        // One that has just been deleted is not found either.
        else if (code !== undefined && lostCodes.has(code) && at !== undefined) item.lost.abort()
      })
    } catch {
      // Until it is too late, the next tick asks again.
    }
  }

  async function removeAll(items: readonly Held[]): Promise<void> {
    try {
      const failed = failuresOf(
        await queue.remove(
          items.map(({ handle }) => handle),
          signal,
        ),
      )
      items.forEach((item, number) => {
        if (!failed.has(number) || lostCodes.has(failed.get(number)!)) release(item)
      })
    } catch {
      // It is tried again.
    }
  }

  async function returnAll(items: readonly { item: Held; seconds: number }[]): Promise<void> {
    const shown = items.map(({ item: { handle }, seconds }) => ({ handle, seconds }))
    await queue.hide(shown, signal).catch(() => undefined)
  }

  return {
    add,
    async remove(item) {
      // Deleted late it has been delivered again, and a group of a FIFO queue has waited.
      for (;;) {
        await removals.add(item)
        const at = held.get(item)
        if (at === undefined) return
        if (signal.aborted || item.lost.signal.aborted) return release(item)
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
    },
    async giveBack(item, seconds) {
      const asked = held.get(item)?.asked
      release(item)
      // A renewal that comes after it would hide the message again.
      await asked
      if (!item.lost.signal.aborted) await returns.add({ item, seconds: Math.min(seconds, longestSeconds) })
    },
  }
}

function failuresOf(failed: Awaited<ReturnType<Queue['remove']>>): Map<number, string> {
  return new Map(failed.map(({ Id, Code = '' }) => [Number(Id), codeOf(Code)]))
}
