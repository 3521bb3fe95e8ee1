import { setImmediate } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { callPublisher } from '../../src/relay/publish-call.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { nodeWarnings } from '../support/warnings.ts'

it('lets a publisher listen for the end of the call once for each message', async () => {
  const warnings = nodeWarnings()
  const publisher: Publisher = {
    name: 'listens',
    capabilities: { ordering: 'batch', deduplication: false },
    async publish(messages, { signal }) {
      for (const _ of messages) signal.addEventListener('abort', () => undefined)
      return messages.map(() => ({ status: 'published' }))
    },
    close: async () => undefined,
  }
  const messages = Array.from({ length: 200 }, () => testMessage())
  const { signal } = new AbortController()
  const { results } = (await callPublisher(publisher, messages, { timeoutMs: 5_000, signal })) as {
    results: unknown[]
  }
  await setImmediate()
  expect(results).toHaveLength(200)
  expect(warnings).toEqual([])
})
