import { integer, string, url } from '../../options.ts'

/** Options that SQS and SNS have in common. */
export const awsOptions = {
  endpoint: url({ protocols: ['http', 'https'] })
    .optional()
    .describe("another address than that of AWS, for a VPC endpoint or an emulator. Default: the SDK's"),
  connections: integer({ min: 1, max: 1024 })
    .default(32)
    .describe('requests under way at once, each with up to ten messages'),
  connectTimeoutMs: integer({ min: 10, max: 600_000 })
    .default(5000)
    .describe('limit for connecting, in milliseconds'),
  cloudEventsSource: string({ maxLength: 1000 })
    .default('/waybill')
    .describe('first part of the attribute `source` in the CloudEvents formats'),
}

/** 256 KiB: what AWS has taken since ever, for a message and for all messages of a request together. */
export const usualBytes = 262_144
