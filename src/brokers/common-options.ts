import { integer, oneOf, string } from '../options.ts'

/** Options that several brokers have, with one meaning. */
export const certificates = string({
  pattern: /-----BEGIN CERTIFICATE-----/,
  expected: 'certificates in PEM form',
})

export const ca = certificates
  .optional()
  .describe('certificates to trust instead of the built-in ones, as PEM text')

export const connectTimeoutMs = integer({ min: 10, max: 600_000 })
  .default(5000)
  .describe('limit for connecting, in milliseconds')

export const cloudEventsSource = string({ maxLength: 1000 })
  .default('/waybill')
  .describe('first part of the attribute `source` in the CloudEvents formats')

/** Of a source that itself sees to it that only one process reads. */
export const readers = oneOf('exclusive', 'shared')
  .default('exclusive')
  .describe(
    'who reads. `exclusive`: one process, others stand by, in order. `shared`: all at once, and without order',
  )
