import { type WebhookOptions, webhookPublisher } from '../../src/brokers/webhook.ts'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { closeLater } from './publishing.ts'

/** Closed after the test. */
export function webhook(options: WebhookOptions & { name?: string }): Publisher {
  return closeLater(webhookPublisher(options))
}
