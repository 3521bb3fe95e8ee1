import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { PrivateAddressError, isPrivateAddress, lookupPublic } from '../../src/brokers/http/addresses.ts'
import { meaningOf, retryAfterMs } from '../../src/brokers/http/answers.ts'
import { createSigner, isSecret } from '../../src/brokers/http/signature.ts'

describe('a signature', () => {
  const body = '{"total": 1.10, "name": "Zoë"}'
  const secret = `whsec_${Buffer.from('a key of twenty-four bytes').toString('base64')}`

  it('is what the reference library of Standard Webhooks accepts', () => {
    const { timestamp, signature } = createSigner([secret])('msg_1', body, Date.now())
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body))
    expect(() => new Webhook(secret).verify(`${body} `, headers)).toThrow(/No matching signature/)
  })

  it('takes a secret without the prefix as it is written', () => {
    const plain = 'correct horse battery staple'
    const { timestamp, signature } = createSigner([plain])('msg_1', body, Date.now())
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    expect(new Webhook(plain, { format: 'raw' }).verify(body, headers)).toEqual(JSON.parse(body))
  })

  it('is there once for each secret, so that a receiver may know either', () => {
    const next = `whsec_${Buffer.from('another key of some length').toString('base64')}`
    const { timestamp, signature } = createSigner([secret, next])('msg_1', body, Date.now())
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    for (const known of [secret, next])
      expect(new Webhook(known).verify(body, headers)).toEqual(JSON.parse(body))
  })

  it.each([
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', true],
    ['plain text', true],
    ['', false],
    ['whsec_', false],
    ['whsec_not base64!', false],
    ['whsec_abc', false],
  ])('%j is a secret: %s', (text, is) => {
    expect(isSecret(text)).toBe(is)
  })
})

describe('an address', () => {
  it.each([
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '198.19.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::127.0.0.1',
    '64:ff9b::10.0.0.1',
    '64:ff9b::a9fe:a9fe',
    '2002:7f00:1::',
    '2002:c0a8:101::1',
    '2001:0:4136:e378::1',
    'fd00::1',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    '2001:db8::1',
    'not an address',
  ])('%s is private', (address) => {
    expect(isPrivateAddress(address)).toBe(true)
  })

  it.each([
    '1.1.1.1',
    '8.8.8.8',
    '11.0.0.1',
    '100.128.0.1',
    '172.32.0.1',
    '192.169.0.1',
    '223.255.255.255',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
    '2002:808:808::1',
    '2001:4860:4860::8888',
    '2606:4700::1111',
  ])('%s is public', (address) => {
    expect(isPrivateAddress(address)).toBe(false)
  })

  it('of a name that has private ones only is not given out', async () => {
    const error = await new Promise((resolve) => lookupPublic('localhost', { all: true }, resolve))
    expect(error).toBeInstanceOf(PrivateAddressError)
  })
})

describe('the meaning of an answer', () => {
  it.each([
    ['published', [200, 201, 202, 204, 299]],
    ['reject', [400, 404, 405, 410, 413, 415, 422]],
    ['unavailable', [401, 403, 407, 408, 425, 429, 502, 503, 504, 301, 302, 303, 307, 308]],
    ['retry', [500, 501, 505, 507, 599, 402, 406, 409, 411, 412, 418, 423, 424, 428, 431, 451]],
  ])('is %s for %j', (meaning, statuses) => {
    expect(statuses.map(meaningOf)).toEqual(statuses.map(() => meaning))
  })
})

describe('Retry-After', () => {
  const now = Date.parse('2025-03-04T05:06:07Z')

  it.each([
    ['0', 0],
    ['7', 7000],
    [' 120 ', 120_000],
    ['Tue, 04 Mar 2025 05:06:17 GMT', 10_000],
    ['Tue, 04 Mar 2025 05:05:00 GMT', 0],
    ['99999999999999', 3_600_000],
    ['Fri, 31 Dec 9999 23:59:59 GMT', 3_600_000],
    ['soon', undefined],
    ['', undefined],
    ['-5', 0],
    [undefined, undefined],
  ])('%j asks for %s ms', (header, ms) => {
    // "-5" is no number of seconds; as a date it is one of long ago.
    expect(retryAfterMs(header, now)).toBe(ms)
  })

  it('sent twice counts once', () => {
    expect(retryAfterMs(['3', '9'], now)).toBe(3000)
  })
})
