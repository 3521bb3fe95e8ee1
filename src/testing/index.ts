/**
 * `waybill/testing`: what helps to test code that uses Waybill, and publishers and sources of your own.
 */
export { assertPublished } from './assert-published.ts'
export type { ExpectedEvent, PublishedEvent } from './assert-published.ts'
export { publisherChecks } from './publisher-checks.ts'
export type { PublisherCheck } from './publisher-checks.ts'
export { testPublisher } from './publisher-contract.ts'
export type {
  PublisherBench,
  PublisherFeatures,
  PublisherSubject,
  ReceivedMessage,
  TestRunner,
} from './publisher-bench.ts'
export { sourceChecks } from './source-checks.ts'
export type { SourceCheck } from './source-checks.ts'
export { testSource } from './source-contract.ts'
export type { SourceBench, SourceFeatures, SourceSubject } from './source-bench.ts'
export { delicateBodies, testMessage } from './test-message.ts'
