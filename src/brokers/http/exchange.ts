import type { Dispatcher } from 'undici'
import { withResolvers } from '../../pause.ts'

export interface Outgoing {
  readonly path: string
  /** Name, value, name, value … */
  readonly headers: string[]
  readonly body: string
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The first part of the body. */
  readonly text: string
}

/** Why there is no answer. `sent` is false when no connection was made: then nothing can have arrived. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
  readonly sent: boolean

  constructor(message: string, sent: boolean, cause?: unknown) {
    super(message, { cause })
    this.sent = sent
  }
}

export interface Exchange {
  /** Rejects with {@link NoAnswer} only. */
  readonly answer: Promise<Answer>
  /** Gives up: an answer whose status is known counts, everything else becomes {@link NoAnswer}. */
  cancel(why: string): void
}

/** What is kept of a body, for messages. */
const textLimit = 1024
/** What is read of a body, to use the connection again; after that the connection is given up. */
const bodyLimit = 65_536

/**
 * One POST and its answer, bounded in time and in size. Redirects are not followed. Written against undici's
 * dispatch instead of its `request`, which cannot tell whether a failed request had been sent.
 */
export function startExchange(
  dispatcher: Dispatcher,
  { path, headers, body }: Outgoing,
  timeoutMs: number,
): Exchange {
  let controller: Dispatcher.DispatchController | undefined
  let head: { status: number; headers: Answer['headers'] } | undefined
  let done = false
  let received = 0
  const parts: Buffer[] = []
  const { promise, resolve, reject } = withResolvers<Answer>()

  function settle(error?: NoAnswer): void {
    if (done) return
    done = true
    clearTimeout(timer)
    if (head !== undefined) {
      const { status, headers } = head
      resolve({ status, headers, text: parts.length === 0 ? '' : textOf(parts) })
    } else if (error !== undefined) {
      reject(error)
    }
  }

  function cancel(why: string): void {
    settle(new NoAnswer(why, controller !== undefined))
    controller?.abort(new Error(why))
  }

  const timer = setTimeout(() => cancel(`no answer within ${timeoutMs} ms`), timeoutMs)

  dispatcher.dispatch(
    // Not by spreading: undici is slow to read what is made of it, a fourth of the cost of a request.
    { path, method: 'POST', headers, body, headersTimeout: 0, bodyTimeout: 0 },
    {
      onRequestStart(started) {
        controller = started
        // Given up while the connection was being made: it is not sent any more.
        if (done) started.abort(new Error('given up before it was sent'))
      },
      onResponseStart(_controller, status, headers) {
        if (status >= 200) head = { status, headers }
      },
      onResponseData(current, chunk) {
        received += chunk.length
        if (parts.length === 0 || received - chunk.length < textLimit) parts.push(chunk)
        if (received > bodyLimit) {
          settle()
          current.abort(new Error('the answer has a body that is too long'))
        }
      },
      onResponseEnd: () => settle(),
      onResponseError(_controller, error) {
        const cause = readable(error)
        settle(new NoAnswer(cause.message, controller !== undefined, cause))
      },
    },
  )
  return { answer: promise, cancel }
}

function textOf(parts: readonly Buffer[]): string {
  return Buffer.concat(parts).subarray(0, textLimit).toString('utf8')
}

// What OpenSSL says when the other side answers in plain text.
const notTls: ReadonlySet<unknown> = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_SSL_HTTP_REQUEST',
])

/** OpenSSL's own text is full of thread ids, source files and lines, also as a cause; its reason is enough. */
function readable(error: Error): Error {
  const { code, reason } = error as { code?: unknown; reason?: unknown }
  if (typeof code !== 'string' || !code.startsWith('ERR_SSL_') || typeof reason !== 'string') return error
  const hint = notTls.has(code) ? ': does this port speak TLS?' : ''
  return Object.assign(new Error(`the TLS handshake failed (${reason})${hint}`), { code })
}
