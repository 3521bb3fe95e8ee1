import { createRequire } from 'node:module'
import * as kafkajs from 'kafkajs'
import { describe, expect, it } from 'vitest'
import { type KafkaFailure, answerOf, failureOf, toResult } from '../../src/brokers/kafka/outcomes.ts'

const { createErrorFromCode } = createRequire(import.meta.url)('kafkajs/src/protocol/error.js') as {
  createErrorFromCode(code: number): Error
}

/** As KafkaJS gives it to its caller: wrapped once for each level that gave up. */
function wrapped(error: Error): Error {
  const { KafkaJSNonRetriableError, KafkaJSNumberOfRetriesExceeded } = kafkajs as unknown as Record<
    string,
    new (error: Error, details: object) => Error
  >
  const inner = new KafkaJSNumberOfRetriesExceeded!(error, { retryCount: 2, retryTime: 50 })
  return new KafkaJSNonRetriableError!(inner, { cause: inner })
}

/** As librdkafka's clients give it. */
const librdkafka = (code: number) => Object.assign(new Error('Local: something'), { code })

const byNumber: Record<Exclude<KafkaFailure, never>, readonly number[]> = {
  topic: [3, 17, 29, -188, -190],
  size: [10, 18],
  refused: [87],
  partition: [5, 6, 8, 9, 19, 20, 41, 56, 72, 74, 75],
  producer: [45, 46, 47, 49, 59, 90, -144, -150],
  cluster: [30, 31, 32, 33, 34, 35, 44, 54, 58, 76, 89, -169, -172, -181, -184],
  away: [-187, -193],
  lost: [2, 7, 13, -1, -185, -192, -195],
}
const table = Object.entries(byNumber).flatMap(([failure, codes]) => codes.map((code) => ({ code, failure })))

describe('the kind of what Kafka says', () => {
  it.each(table)('$code is "$failure"', ({ code, failure }) => {
    const error = code > 0 ? createErrorFromCode(code) : librdkafka(code)
    expect(failureOf(error)).toBe(failure)
    if (code > 0) expect(failureOf(wrapped(error))).toBe(failure)
  })

  it('has a line here for each of its own', async () => {
    const { readFileSync } = await import('node:fs')
    const source = readFileSync(new URL('../../src/brokers/kafka/outcomes.ts', import.meta.url), 'utf8')
    const lines = [...source.matchAll(/^ {2}'?(-?\d+)'?: '(\w+)',/gm)].map(([, code, failure]) => ({
      code: Number(code),
      failure,
    }))
    const order = (a: { code: number }, b: { code: number }) => a.code - b.code
    expect(lines.toSorted(order)).toEqual(table.toSorted(order))
  })

  it.each([
    [
      'away',
      new kafkajs.KafkaJSConnectionError('connect ECONNREFUSED', { broker: 'b:1', code: 'ECONNREFUSED' }),
    ],
    ['away', new kafkajs.KafkaJSConnectionError('Connection timeout', { broker: 'b:1' })],
    ['lost', new kafkajs.KafkaJSConnectionError('Connection error: read ECONNRESET', { code: 'ECONNRESET' })],
    ['lost', new kafkajs.KafkaJSConnectionError('Connection error: write EPIPE', { code: 'EPIPE' })],
    ['lost', new kafkajs.KafkaJSConnectionError('Connection closed by the server', { broker: 'b:1' })],
    ['lost', named('KafkaJSConnectionClosedError', 'Closed connection')],
    ['lost', named('KafkaJSRequestTimeoutError', 'Request Produce timed out')],
    ['away', named('KafkaJSNoBrokerAvailableError', 'No broker available')],
    ['away', named('KafkaJSBrokerNotFound', 'Broker 2 not found in the cached metadata')],
    ['away', named('KafkaJSLockTimeout', 'Timeout while acquiring lock')],
    ['partition', named('KafkaJSMetadataNotLoaded', 'Producing to topic without metadata')],
    ['partition', named('KafkaJSTopicMetadataNotLoaded', 'Topic metadata not loaded')],
    ['cluster', named('KafkaJSSASLAuthenticationError', 'SASL PLAIN authentication failed')],
    ['cluster', named('KafkaJSServerDoesNotSupportApiKey', 'The Kafka server does not support it')],
    ['cluster', new kafkajs.KafkaJSError('The producer is disconnected')],
    ['lost', createErrorFromCode(-1)],
    ['lost', createErrorFromCode(4711)],
  ])('of this side: "%s" for %s', (failure, error) => {
    expect(failureOf(error)).toBe(failure)
    expect(failureOf(wrapped(error))).toBe(failure)
  })

  it.each([
    new TypeError('x is not a function'),
    wrapped(new TypeError('x')),
    undefined,
    'text',
    librdkafka(-199),
  ])('is none for what is no answer of Kafka’s: %s', (error) => expect(failureOf(error)).toBeUndefined())
})

function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name })
}

describe('the result for one message', () => {
  const results: Record<KafkaFailure, object> = {
    topic: { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } },
    partition: { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } },
    cluster: { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } },
    away: { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } },
    producer: { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
    lost: { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
    size: { status: 'reject', error: { code: 'EVENT_REJECTED', details: { answer: 'MESSAGE_TOO_LARGE' } } },
    refused: { status: 'reject', error: { code: 'EVENT_REJECTED' } },
  }

  it.each(Object.keys(results) as KafkaFailure[])('with the failure "%s"', (failure) => {
    const error = wrapped(createErrorFromCode(10))
    expect(toResult('log', 'orders', error, failure)).toMatchObject(results[failure])
  })

  it('says what Kafka said, of which topic, and what to do about it', () => {
    const result = toResult('log', 'orders', wrapped(createErrorFromCode(3)), 'topic')
    expect(String('error' in result && result.error.message)).toBe(
      'log, topic "orders": This server does not host this topic-partition (make the topic, or route the event to another)',
    )
    expect(answerOf(wrapped(createErrorFromCode(3)))).toBe('UNKNOWN_TOPIC_OR_PARTITION')
    expect(answerOf(librdkafka(-192))).toBe('-192')
    expect(answerOf(named('KafkaJSBrokerNotFound', 'x'))).toBe('KafkaJSBrokerNotFound')
  })
})
