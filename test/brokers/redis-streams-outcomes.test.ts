import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { redisFailureOf, redisResult } from '../../src/brokers/redis/outcomes.ts'

/** What Redis and its client say, in their words; at least one line for each line of the table. */
const answers = [
  ["OOM command not allowed when used memory > 'maxmemory'.", 'away'],
  ['LOADING Redis is loading the dataset in memory', 'away'],
  ['MISCONF Redis is configured to save RDB snapshots, but it is unable to persist to disk.', 'away'],
  ['NOREPLICAS Not enough good replicas to write.', 'away'],
  ['BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.', 'away'],
  ['UNKILLABLE Sorry the script already executed write commands against the dataset.', 'away'],
  ['NOPERM this user has no permissions to access one of the keys used as arguments', 'stream'],
  ['NOPERM No permissions to access a key', 'stream'],
  ["NOPERM this user has no permissions to run the 'xadd' command", 'away'],
  ["ERR unknown command 'xadd', with args beginning with: ", 'away'],
  ['MOVED 3999 127.0.0.1:6381', 'away'],
  ['ASK 3999 127.0.0.1:6381', 'away'],
  ['TRYAGAIN Multiple keys request during rehashing of slot', 'away'],
  ["CROSSSLOT Keys in request don't hash to the same slot", 'away'],
  ['CLUSTERDOWN Hash slot not served', 'away'],
  ["READONLY You can't write against a read only replica.", 'elsewhere'],
  ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", 'elsewhere'],
  ['NOAUTH Authentication required.', 'elsewhere'],
  ['WRONGPASS invalid username-password pair or user is disabled.', 'elsewhere'],
  ['DENIED Redis is running in protected mode', 'elsewhere'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'stream'],
  ['ERR The stream has exhausted the last possible ID, unable to add more items', 'stream'],
  ['ERR Elements are too large to be stored', 'refused'],
  ['ERR Protocol error: invalid bulk length', 'refused'],
  ['Connection is closed.', 'lost'],
  ['Command aborted due to connection close', 'lost'],
  ["Stream isn't writeable and enableOfflineQueue options is false", 'lost'],
  ['EXECABORT Transaction discarded because of: OOM command not allowed', 'away'],
  ["EXECABORT Transaction discarded because of: READONLY You can't write", 'elsewhere'],
  ['EXECABORT Transaction discarded because of previous errors.', 'other'],
  ['ERR something new', 'other'],
] as const

describe('an answer of Redis', () => {
  it.each(answers)('"%s" is of the kind %s', (text, kind) => {
    expect(redisFailureOf(new Error(text))).toBe(kind)
  })

  it('of each line of the table has a line above, and its word stands on the page of the broker', () => {
    const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
    const lines = [...read('src/brokers/redis/outcomes.ts').matchAll(/^ {2}\[\/(\^.*)\/, '(\w+)'\],$/gm)]
    expect(lines.length).toBeGreaterThan(12)
    const page = read('docs/brokers/redis-streams.md')
    for (const [, pattern, kind] of lines) {
      const fitting = answers.filter(([text]) => new RegExp(pattern!).test(text))
      expect(
        fitting.map(([, expected]) => expected),
        pattern,
      ).toContain(kind)
      for (const [text] of fitting) if (/^[A-Z]{4,} /.test(text)) expect(page).toContain(text.split(' ')[0])
    }
  })
})

describe('the result', () => {
  const result = (answer: Parameters<typeof redisResult>[2]) => redisResult('bus', 'outbox.a', answer)

  it.each([
    ['away', 'OOM command not allowed', 'retry', 'BROKER_UNAVAILABLE'],
    ['elsewhere', "READONLY You can't write against a read only replica.", 'retry', 'BROKER_UNAVAILABLE'],
    ['stream', 'WRONGTYPE Operation against a key', 'retry', 'BROKER_UNAVAILABLE'],
    ['refused', 'ERR Elements are too large to be stored', 'reject', 'EVENT_REJECTED'],
    ['lost', 'Connection is closed.', 'retry', 'PUBLISH_TIMEOUT'],
    ['other', 'ERR something new', 'retry', 'PUBLISH_FAILED'],
  ] as const)('of the kind %s says whose fault it is', (_kind, text, status, code) => {
    expect(result(new Error(text))).toMatchObject({
      status,
      error: { code, message: `bus, stream "outbox.a": ${text}` },
    })
  })

  it('holds nothing of the command, which has the payload', () => {
    const error = Object.assign(new Error('OOM'), { command: { name: 'xadd', args: ['hunter2'] } })
    const { error: told } = result(error) as { error: Error }
    expect(told.cause).toBeUndefined()
  })

  it('of an id is a receipt, of no answer yet a timeout', () => {
    expect(result('5-0')).toEqual({ status: 'published', receipt: 'redis:outbox.a@5-0' })
    expect(result(undefined)).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
  })
})
