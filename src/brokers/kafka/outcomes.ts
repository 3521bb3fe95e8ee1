import { describeError } from '../../errors.ts'
import {
  brokerUnavailable,
  publishTimeout,
  rejectedBy,
  type PublishResult,
} from '../../publishing/publisher.ts'

/**
 * - `topic`: there is no such topic, or this user may not write to it;
 * - `size`: a message, or all those of one partition together, are larger than the topic takes;
 * - `refused`: the broker does not take this message, whatever its neighbours are;
 * - `partition`: the partition takes nothing now (no leader, too few replicas, a full disk);
 * - `producer`: the broker has lost, or does not believe, what it knew of this producer: another one is needed;
 * - `cluster`: nobody lets this client do anything (login, authorization, versions, clocks);
 * - `away`: no connection can be made;
 * - `lost`: a connection or an answer was lost, the messages may have arrived.
 */
export type KafkaFailure =
  'topic' | 'size' | 'refused' | 'partition' | 'producer' | 'cluster' | 'away' | 'lost'

/** Answers of a broker, by the number that every client has for them. */
const answers: Readonly<Record<number, KafkaFailure>> = {
  2: 'lost', // CORRUPT_MESSAGE: damaged on the way
  3: 'topic', // UNKNOWN_TOPIC_OR_PARTITION
  5: 'partition', // LEADER_NOT_AVAILABLE
  6: 'partition', // NOT_LEADER_OR_FOLLOWER
  7: 'lost', // REQUEST_TIMED_OUT: not all replicas have answered
  8: 'partition', // BROKER_NOT_AVAILABLE
  9: 'partition', // REPLICA_NOT_AVAILABLE
  10: 'size', // MESSAGE_TOO_LARGE
  13: 'lost', // NETWORK_EXCEPTION
  17: 'topic', // INVALID_TOPIC_EXCEPTION
  18: 'size', // RECORD_LIST_TOO_LARGE
  19: 'partition', // NOT_ENOUGH_REPLICAS
  20: 'partition', // NOT_ENOUGH_REPLICAS_AFTER_APPEND
  29: 'topic', // TOPIC_AUTHORIZATION_FAILED
  30: 'cluster', // GROUP_AUTHORIZATION_FAILED
  31: 'cluster', // CLUSTER_AUTHORIZATION_FAILED
  32: 'cluster', // INVALID_TIMESTAMP: one of the two clocks is wrong
  33: 'cluster', // UNSUPPORTED_SASL_MECHANISM
  34: 'cluster', // ILLEGAL_SASL_STATE
  35: 'cluster', // UNSUPPORTED_VERSION
  41: 'partition', // NOT_CONTROLLER
  44: 'cluster', // POLICY_VIOLATION
  45: 'producer', // OUT_OF_ORDER_SEQUENCE_NUMBER
  46: 'producer', // DUPLICATE_SEQUENCE_NUMBER
  47: 'producer', // INVALID_PRODUCER_EPOCH
  49: 'producer', // INVALID_PRODUCER_ID_MAPPING
  54: 'cluster', // SECURITY_DISABLED
  56: 'partition', // KAFKA_STORAGE_ERROR
  58: 'cluster', // SASL_AUTHENTICATION_FAILED
  59: 'producer', // UNKNOWN_PRODUCER_ID
  72: 'partition', // LISTENER_NOT_FOUND
  74: 'partition', // FENCED_LEADER_EPOCH
  75: 'partition', // UNKNOWN_LEADER_EPOCH
  76: 'cluster', // UNSUPPORTED_COMPRESSION_TYPE
  87: 'refused', // INVALID_RECORD
  89: 'cluster', // THROTTLING_QUOTA_EXCEEDED
  90: 'producer', // PRODUCER_FENCED
}

/** What went wrong on this side: names of errors of KafkaJS, and numbers of librdkafka, which are negative. */
const local: Readonly<Record<string, KafkaFailure>> = {
  KafkaJSSASLAuthenticationError: 'cluster',
  KafkaJSServerDoesNotSupportApiKey: 'cluster',
  KafkaJSNoBrokerAvailableError: 'away',
  KafkaJSBrokerNotFound: 'away',
  KafkaJSLockTimeout: 'away',
  KafkaJSConnectionClosedError: 'lost',
  KafkaJSRequestTimeoutError: 'lost',
  KafkaJSMetadataNotLoaded: 'partition',
  KafkaJSTopicMetadataNotLoaded: 'partition',
  '-1': 'lost', // an error of the server that has no number
  '-184': 'cluster', // its queue is full
  '-185': 'lost', // timed out
  '-187': 'away', // all brokers down
  '-188': 'topic', // unknown topic
  '-190': 'topic', // unknown partition
  '-192': 'lost', // message timed out
  '-193': 'away', // cannot resolve
  '-195': 'lost', // broker transport failure
  '-144': 'producer', // fenced
  '-150': 'producer', // fatal: this instance is of no more use
  '-169': 'cluster', // authentication
  '-172': 'cluster', // not connected, or closed
  '-181': 'cluster', // TLS
}

// Its code for every answer that is younger than it is; the number stands in the message.
const unknownToKafkajs = -99

// The socket was there when these came.
const whileConnected: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE'])

/** The kind of an error that KafkaJS, or a client of its shape, gave; undefined for what is no answer of Kafka's. */
export function failureOf(error: unknown): KafkaFailure | undefined {
  const { name, message, code: given } = rootOf(error)
  const code = given === unknownToKafkajs ? Number(/\d+$/.exec(message)) : given
  if (typeof code === 'number') return answers[code] ?? local[code] ?? (code > 0 ? 'lost' : undefined)
  if (name === 'KafkaJSConnectionError') {
    return whileConnected.has(code) || message.includes('onnection closed') ? 'lost' : 'away'
  }
  if (message === 'The producer is disconnected') return 'cluster'
  return local[name]
}

/** What Kafka says of it, short: for people, and to compare refusals with each other. */
export function answerOf(error: unknown): string {
  const { type, name, code } = rootOf(error)
  if (typeof type === 'string') return type
  return typeof code === 'string' || typeof code === 'number' ? String(code) : name
}

/** The result for one message with this failure; for `size` and `refused` it must have been alone. */
export function toResult(name: string, topic: string, error: unknown, failure: KafkaFailure): PublishResult {
  const root = rootOf(error)
  const text = describeError(root, 300)
  const of = `${name}, topic ${JSON.stringify(topic)}: ${text}${hints[answerOf(root)] ?? ''}`
  const cause = { cause: root }
  switch (failure) {
    case 'size':
    case 'refused':
      return { status: 'reject', error: rejectedBy(answerOf(root), of, cause) }
    case 'topic':
    case 'partition':
      return { status: 'retry', error: brokerUnavailable(of, cause) }
    case 'cluster':
    case 'away':
      return { status: 'retry', error: brokerUnavailable(`${name}: ${text}`, cause) }
    case 'producer':
    case 'lost':
      return { status: 'retry', error: publishTimeout(of, cause) }
  }
}

const hints: Readonly<Record<string, string>> = {
  UNKNOWN_TOPIC_OR_PARTITION: ' (make the topic, or route the event to another)',
  TOPIC_AUTHORIZATION_FAILED: ' (the user needs WRITE on it)',
  MESSAGE_TOO_LARGE: ' (see max.message.bytes of the topic)',
}

interface KafkaError extends Error {
  readonly code?: unknown
  readonly type?: unknown
}

/** KafkaJS wraps an error once for each level that gave up. */
function rootOf(error: unknown): KafkaError {
  let root = error instanceof Error ? error : new Error(String(error))
  for (let depth = 0; depth < 10 && root.cause instanceof Error; depth++) root = root.cause
  return root
}
