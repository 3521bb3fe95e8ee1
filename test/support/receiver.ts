import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { atEndOfFile } from './cleanups.ts'

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Names as they were sent. */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

export type Responder = (
  request: ReceivedRequest,
  response: ServerResponse,
) => number | void | Promise<number | void>

/** A real HTTP server that keeps what it gets. */
export interface Receiver {
  readonly port: number
  readonly origin: string
  /** In the order in which the requests were complete. */
  readonly requests: ReceivedRequest[]
  /** Decides the answer: a status, or whatever it does with the response. Default: 204. */
  respond: Responder
  /** Resolves with the first `count` requests. */
  waitFor(count: number): Promise<readonly ReceivedRequest[]>
  stop(): Promise<void>
  start(): Promise<void>
}

export async function startReceiver(
  respond: Responder = () => 204,
  tls?: { key: string; cert: string },
): Promise<Receiver> {
  const waiting = new Set<() => void>()
  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of incoming) chunks.push(chunk as Buffer)
    } catch {
      // The sender went away in the middle: there is nobody to answer.
      return
    }
    const request: ReceivedRequest = {
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers as Record<string, string>,
      rawHeaders: incoming.rawHeaders,
      body: Buffer.concat(chunks).toString('utf8'),
    }
    receiver.requests.push(request)
    for (const wake of waiting) wake()
    const status = await receiver.respond(request, response)
    if (typeof status === 'number') response.writeHead(status).end()
  }
  const listener = (incoming: IncomingMessage, response: ServerResponse) => void handle(incoming, response)
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener)
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject)
        resolve()
      })
    })
  await listen(0)
  const { port } = server.address() as AddressInfo
  const receiver: Receiver = {
    port,
    origin: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    requests: [],
    respond,
    async waitFor(count) {
      while (receiver.requests.length < count) {
        await new Promise<void>((resolve) => {
          const wake = () => {
            waiting.delete(wake)
            resolve()
          }
          waiting.add(wake)
        })
      }
      return receiver.requests.slice(0, count)
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
    start: () => listen(port),
  }
  atEndOfFile(() => (server.listening ? receiver.stop() : undefined))
  return receiver
}
