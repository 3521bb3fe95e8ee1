import { describeError } from '../../errors.ts'
import { showName } from '../../publishing/headers.ts'
import {
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
} from '../../publishing/publisher.ts'

/**
 * - `away`: the server takes no writes now (full, loading, a replica), or not from this user;
 * - `elsewhere`: the same, and another connection may reach the server that does;
 * - `stream`: no entry can be added to this stream; other streams may work;
 * - `refused`: the server never takes this entry;
 * - `lost`: the connection ended before the answer;
 * - `other`: an answer that is not in this table.
 */
export type RedisFailure = 'away' | 'elsewhere' | 'stream' | 'refused' | 'lost' | 'other'

/** What an answer begins with. The first line that fits counts. */
const answers: readonly (readonly [start: RegExp, failure: RedisFailure])[] = [
  [/^OOM\b/, 'away'],
  [/^LOADING\b/, 'away'],
  [/^MISCONF\b/, 'away'],
  [/^NOREPLICAS\b/, 'away'],
  [/^(BUSY|UNKILLABLE)\b/, 'away'],
  [/^NOPERM\b.*\b(key|keys)\b/, 'stream'],
  [/^NOPERM\b/, 'away'],
  [/^ERR unknown command/, 'away'],
  [/^(MOVED|ASK|TRYAGAIN|CROSSSLOT|CLUSTERDOWN)\b/, 'away'],
  [/^READONLY\b/, 'elsewhere'],
  [/^MASTERDOWN\b/, 'elsewhere'],
  [/^(NOAUTH|WRONGPASS|DENIED)\b/, 'elsewhere'],
  [/^WRONGTYPE\b/, 'stream'],
  [/^ERR The stream has exhausted/, 'stream'],
  [/^ERR Elements are too large/, 'refused'],
  [/^ERR Protocol error/, 'refused'],
  [/^(Connection is closed|Command aborted|Stream isn't writeable)/, 'lost'],
]

/** What the answers of a transaction say about it as a whole, before the reason. */
const aborted = /^EXECABORT Transaction discarded because of: /

export function redisFailureOf(error: Error): RedisFailure {
  const text = error.message.replace(aborted, '')
  return answers.find(([start]) => start.test(text))?.[1] ?? 'other'
}

/** True when the connection leads to a server that will not change its mind: after a failover, for example. */
export function belongsElsewhere(error: Error): boolean {
  return redisFailureOf(error) === 'elsewhere'
}

/** The result for what the server said about one entry: its id, an error, or undefined: no word yet. */
export function redisResult(name: string, stream: string, answer: string | Error | undefined): PublishResult {
  if (answer === undefined) {
    return { status: 'retry', error: publishTimeout(`${name} did not confirm in time`) }
  }
  if (!(answer instanceof Error)) return { status: 'published', receipt: `redis:${stream}@${answer}` }
  const said = describeError(answer, 300)
  const text = `${name}, stream ${showName(stream)}: ${said}`
  // The client's error is no cause: it has the command with its arguments, the payload among them.
  switch (redisFailureOf(answer)) {
    case 'away':
    case 'elsewhere':
    case 'stream':
      return { status: 'retry', error: brokerUnavailable(text) }
    case 'refused':
      return { status: 'reject', error: rejectedBy(said, text) }
    case 'lost':
      return { status: 'retry', error: publishTimeout(text) }
    case 'other':
      return { status: 'retry', error: publishFailed(text) }
  }
}
