import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'

/** An HTTP server on a port of this machine that can go away and come back. */
export function createListener(
  port: number,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
) {
  let server: Server | undefined
  return {
    get isOpen() {
      return server !== undefined
    },
    async open(): Promise<void> {
      const next = createServer(handle)
      await new Promise<void>((done, fail) => next.once('error', fail).listen(port, '127.0.0.1', done))
      server = next
    },
    /** Hangs up, also on requests that are being handled. */
    async close(): Promise<void> {
      const last = server
      server = undefined
      await new Promise<void>((done) => {
        if (last === undefined) return done()
        last.close(() => done())
        last.closeAllConnections()
      })
    },
  }
}

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts)
}
