import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A receiver that takes every event at once. */
export interface Webhook {
  readonly url: string
  /** Requests so far. */
  readonly received: number
  close(): Promise<void>
}

export async function startWebhook(): Promise<Webhook> {
  let received = 0
  const server = createServer((request, response) => {
    received++
    request.resume()
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve, reject) =>
    server.once('error', reject).listen(0, '127.0.0.1', () => resolve()),
  )
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`,
    get received() {
      return received
    },
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
