import { boolean, either, instance, integer, list, object, oneOf, record, string, url } from '../options.ts'
import type { OptionsInput, OptionsOf } from '../options.ts'
import { isReservedHeader } from '../publishing/headers.ts'
import { ca, cloudEventsSource } from './common-options.ts'
import { type AnswerMeaning, answerMeanings } from './http/answers.ts'
import { isSecret } from './http/signature.ts'

/** An answer of the receiver, for {@link ClassifyAnswer}. */
export interface WebhookAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The first 1024 bytes of the body as text. */
  readonly text: string
}

/** Says what an answer means, or undefined for the usual meaning. */
export type ClassifyAnswer = (answer: WebhookAnswer) => AnswerMeaning | undefined

const secret = string({
  secret: true,
  accepts: isSecret,
  expected: 'a secret: "whsec_" and base64, or any other text',
})

export const webhookOptions = object({
  url: url({ protocols: ['http', 'https'] }).describe('address for every event whose route gives none'),
  secret: either([secret, list(secret, { min: 1, max: 10 })], (value) => (Array.isArray(value) ? 1 : 0))
    .optional()
    .describe('signs each request; a list while receivers change from one secret to the next'),
  headers: record(string({ secret: true, pattern: /^[\t\x20-\x7e]*$/, expected: 'printable ASCII text' }), {
    key: {
      expected: 'a name of a header that is not reserved',
      accepts: (name) =>
        /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name) &&
        (name.toLowerCase() === 'authorization' || !isReservedHeader(name)),
    },
  })
    .default({})
    .describe('sent with each request to the origin of `url`, for example `authorization`'),
  connections: integer({ min: 1, max: 1024 })
    .default(32)
    .describe('requests under way at once, and connections to one origin'),
  timeoutMs: integer({ min: 10, max: 600_000 })
    .default(10_000)
    .describe('limit for one request from connecting to the end of the answer, in milliseconds'),
  maxMessageBytes: integer({ min: 1, max: 1_073_741_824 })
    .optional()
    .describe('a larger body makes its event a dead letter, in bytes; no limit when left out'),
  answers: record(oneOf(...answerMeanings), {
    key: { expected: 'a status from 200 to 599', accepts: (key) => /^[2-5]\d\d$/.test(key) },
  })
    .default({})
    .describe('another meaning for a status: published, retry, reject or unavailable'),
  classify: instance<ClassifyAnswer>('a function', (value) => typeof value === 'function')
    .optional()
    .describe('another meaning for an answer, decided by code; asked before `answers`'),
  ca,
  allowPrivateAddresses: boolean()
    .default(false)
    .describe('lets an address that a route gives be a private one'),
  cloudEventsSource,
})

export type WebhookSettings = OptionsOf<typeof webhookOptions>
/** What a user may write for a webhook destination. */
export type WebhookOptions = OptionsInput<typeof webhookOptions>
