import { integer, string, url } from '../../options.ts'

export const region = string({ pattern: /^[a-z0-9-]+$/, expected: 'the name of an AWS region' })
  .optional()
  .describe("the region, for example `eu-central-1`. Default: the SDK's (`AWS_REGION`, the profile)")

export const connection = {
  endpoint: url({ protocols: ['http', 'https'] })
    .optional()
    .describe("another address than that of AWS, for a VPC endpoint or an emulator. Default: the SDK's"),
  connectTimeoutMs: integer({ min: 10, max: 600_000 })
    .default(5000)
    .describe('limit for connecting, in milliseconds'),
}

/** Options that the publishers for SQS and SNS have in common. */
export const awsOptions = {
  endpoint: connection.endpoint,
  connections: integer({ min: 1, max: 1024 })
    .default(32)
    .describe('requests under way at once, each with up to ten messages'),
  connectTimeoutMs: connection.connectTimeoutMs,
  cloudEventsSource: string({ maxLength: 1000 })
    .default('/waybill')
    .describe('first part of the attribute `source` in the CloudEvents formats'),
}

/** 256 KiB: what AWS has taken since ever, for a message and for all messages of a request together. */
export const usualBytes = 262_144
