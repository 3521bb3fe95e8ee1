import { integer, string, url } from '../../options.ts'
import { cloudEventsSource, connectTimeoutMs } from '../common-options.ts'

export const region = string({ pattern: /^[a-z0-9-]+$/, expected: 'the name of an AWS region' })
  .optional()
  .describe("the region, for example `eu-central-1`. Default: the SDK's (`AWS_REGION`, the profile)")

export const connection = {
  endpoint: url({ protocols: ['http', 'https'] })
    .optional()
    .describe("another address than that of AWS, for a VPC endpoint or an emulator. Default: the SDK's"),
  connectTimeoutMs,
}

/** Options that the publishers for SQS and SNS have in common. */
export const awsOptions = {
  endpoint: connection.endpoint,
  connections: integer({ min: 1, max: 1024 })
    .default(32)
    .describe('requests under way at once, each with up to ten messages'),
  connectTimeoutMs,
  cloudEventsSource,
}

/** 256 KiB: what AWS has taken since ever, for a message and for all messages of a request together. */
export const usualBytes = 262_144
