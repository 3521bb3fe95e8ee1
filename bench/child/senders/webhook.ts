import { Pool } from 'undici'
import { webhookPublisher } from '../../../src/brokers/webhook.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

/** As many connections as the publisher has by default. */
const connections = 32

/** Without signatures: the bare client makes none. */
export const webhookSenders: Senders = {
  async waybill({ address }, batches) {
    return publisherSender(webhookPublisher({ url: address }), batches)
  },
  async bare({ address }, batches) {
    const { origin, pathname } = new URL(address)
    const encoder = createEncoder({ binding: 'http' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const { body, contentType, headers } = encoder.encode(message)
        return { body, headers: ['content-type', contentType, ...headers.flat()] }
      }),
    )
    const pool = new Pool(origin, { connections, pipelining: 1 })
    return {
      async send(batch) {
        const answers = records[batch]!.map(async (record) => {
          const { statusCode, body } = await pool.request({ method: 'POST', path: pathname, ...record })
          await body.dump()
          if (statusCode !== 204) throw new Error(`the receiver answered ${statusCode}`)
        })
        await Promise.all(answers)
      },
      close: () => pool.close(),
    }
  },
}
