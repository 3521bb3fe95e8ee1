import { jserrors } from '@nats-io/jetstream/internal'
import { RequestError, errors } from '@nats-io/transport-node'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { natsFailureOf, natsResult } from '../../src/brokers/nats/outcomes.ts'

const answer = (err_code: number, description: string, code = 500) =>
  new jserrors.JetStreamApiError({ code, err_code, description })

/** Each answer that JetStream can give to a publication, in its own words. */
const answers = [
  [10002, 'resource limits exceeded for account', 'full'],
  [10007, 'JetStream cluster not assigned to this server', 'full'],
  [10008, 'JetStream system temporarily unavailable', 'full'],
  [10009, 'JetStream cluster can not handle request', 'full'],
  [10023, 'insufficient resources', 'full'],
  [10028, 'insufficient memory resources available', 'full'],
  [10039, 'JetStream not enabled for account', 'stream'],
  [10041, 'raft: not enough members', 'full'],
  [10047, 'insufficient storage resources available', 'full'],
  [10054, 'message size exceeds maximum allowed', 'refused'],
  [10060, 'expected stream does not match', 'stream'],
  [10076, 'JetStream not enabled', 'stream'],
  [10077, 'maximum messages exceeded', 'full'],
  [10077, 'maximum bytes exceeded', 'full'],
  [10077, 'write failed: no space left on device', 'full'],
  [10077, 'maximum messages per subject exceeded', 'subject'],
  [10097, 'header size exceeds maximum allowed of 64k', 'refused'],
  [10109, 'invalid operation on sealed stream', 'full'],
  [10118, 'stream is offline', 'full'],
  [10158, 'duplicate message id is in process', 'busy'],
  [10167, 'too many requests', 'full'],
  [10194, 'stream is offline: unsupported', 'full'],
  [10999, 'something new', 'other'],
] as const

const permission = (operation: 'publish' | 'subscription') =>
  new errors.PermissionViolationError('denied', operation, 'outbox.a')

describe('an answer of JetStream', () => {
  it.each(answers)('%i "%s" is of the kind %s', (code, description, kind) => {
    expect(natsFailureOf(answer(code, description))).toBe(kind)
  })

  it('of each code has a line above, and stands on the page of the broker', () => {
    const source = readFileSync(new URL('../../src/brokers/nats/outcomes.ts', import.meta.url), 'utf8')
    const codes = [...source.matchAll(/^ {2}(\d{5}): '/gm)].map(([, code]) => Number(code))
    expect(codes.length).toBeGreaterThan(15)
    const page = readFileSync(new URL('../../docs/brokers/nats.md', import.meta.url), 'utf8')
    for (const code of codes) {
      expect(
        answers.some(([known]) => known === code),
        `${code}`,
      ).toBe(true)
      expect(page).toContain(String(code))
    }
  })

  it('without a code of its own is sorted by its status', () => {
    expect(
      natsFailureOf(
        new jserrors.JetStreamApiError({ code: 503, err_code: 0, description: 'raft: not leader' }),
      ),
    ).toBe('full')
  })
})

describe('an error of the client', () => {
  it.each([
    [
      'nobody answered',
      new jserrors.JetStreamNotEnabled('x', { cause: new RequestError('no responders') }),
      'stream',
    ],
    ['denied to publish', permission('publish'), 'subject'],
    ['denied, as a request fails', new RequestError('denied', { cause: permission('publish') }), 'subject'],
    ['denied to listen', new RequestError('denied', { cause: permission('subscription') }), 'inbox'],
    ['too large', new errors.InvalidArgumentError('payload'), 'payload'],
    ['not JSON', new SyntaxError('Unexpected token'), 'stranger'],
    ['JSON, and no answer', new TypeError('Cannot read properties of null'), 'stranger'],
    ['closed', new errors.ClosedConnectionError(), 'lost'],
    ['about to be closed', new errors.DrainingConnectionError(), 'lost'],
    ['closed under a request', new RequestError('connection closed'), 'lost'],
    ['the same, wrapped', new RequestError('x', { cause: new RequestError('connection closed') }), 'lost'],
    ['no answer in time', new errors.TimeoutError(), 'lost'],
    ['unknown', new Error('x'), 'other'],
    ['nothing at all', undefined, 'other'],
  ] as const)('%s is of the right kind', (_what, error, kind) => {
    expect(natsFailureOf(error)).toBe(kind)
  })
})

describe('the result', () => {
  const result = (kind: Parameters<typeof natsResult>[2]) => natsResult('bus', 'outbox.a', kind)

  it.each([
    ['stream', answer(10060, 'expected stream does not match'), 'retry', 'BROKER_UNAVAILABLE'],
    ['full', answer(10077, 'maximum bytes exceeded'), 'retry', 'BROKER_UNAVAILABLE'],
    ['inbox', permission('subscription'), 'retry', 'BROKER_UNAVAILABLE'],
    ['subject', permission('publish'), 'retry', 'PUBLISH_FAILED'],
    ['busy', answer(10158, 'duplicate message id is in process'), 'retry', 'PUBLISH_FAILED'],
    ['stranger', new SyntaxError('x'), 'retry', 'PUBLISH_FAILED'],
    ['other', new Error('x'), 'retry', 'PUBLISH_FAILED'],
    ['lost', new errors.ClosedConnectionError(), 'retry', 'PUBLISH_TIMEOUT'],
    ['refused', answer(10054, 'message size exceeds maximum allowed'), 'reject', 'EVENT_REJECTED'],
    ['payload', new errors.InvalidArgumentError('x'), 'reject', 'EVENT_UNDELIVERABLE'],
  ] as const)('of the kind %s says whose fault it is', (_kind, error, status, code) => {
    expect(result(error)).toMatchObject({ status, error: { code } })
  })

  it('of no answer yet is a timeout', () => {
    expect(result(undefined)).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
  })

  it('is published only for what JetStream itself says, and when it is stored', () => {
    const ack = (fields: object) => result(fields as Parameters<typeof natsResult>[2])
    expect(ack({ stream: 'OUT', seq: 5, duplicate: false })).toEqual({
      status: 'published',
      receipt: 'nats:OUT@5',
    })
    expect(ack({ stream: 'OUT', seq: 5, duplicate: true })).toMatchObject({ status: 'published' })
    expect(ack({ stream: 'OUT', seq: 0, duplicate: true })).toMatchObject({
      status: 'retry',
      error: { message: expect.stringContaining('still at work') },
    })
    expect(ack({ ok: true })).toMatchObject({
      status: 'retry',
      error: { code: 'PUBLISH_FAILED', message: expect.stringContaining("is not JetStream's") },
    })
  })
})
