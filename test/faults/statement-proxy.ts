import { type Socket, connect, createServer } from 'node:net'
import { atEndOfFile } from '../support/cleanups.ts'

/** Stands before PostgreSQL and strikes the next statement with a certain text, once. Then it takes no connections. */
export interface StatementProxy {
  /** The database's address through it. */
  readonly url: string
  /** The statement runs, its answer is lost together with its session. */
  loseAnswer(): void
  /** The statement is still on its way when its session is given up. */
  holdBack(): void
  /** Resolves when that has happened. */
  readonly struck: Promise<void>
  /** Takes connections again. */
  up(): Promise<void>
  /** Lets the server have what was held back; resolves with its answer. */
  deliver(): Promise<string>
}

export async function createStatementProxy(address: string, text: string): Promise<StatementProxy> {
  const url = new URL(address)
  const target = Number(url.port)
  const sockets = new Set<Socket>()
  let fault: 'lose' | 'hold' | undefined
  let held: { outside: Socket; data: Buffer[] } | undefined
  let happened!: () => void
  const struck = new Promise<void>((resolve) => (happened = resolve))

  const server = createServer((inside) => {
    const outside = connect({ host: '127.0.0.1', port: target })
    for (const socket of [inside, outside]) {
      sockets.add(socket.setNoDelay(true))
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    }
    let mine: typeof fault
    inside.on('data', (data) => {
      if (mine === undefined && fault !== undefined && data.includes(text)) {
        mine = fault
        fault = undefined
        if (mine === 'hold') {
          held = { outside, data: [] }
          strike()
        }
      }
      if (mine === 'hold') held!.data.push(data)
      else outside.write(data)
    })
    outside.on('data', (data) => {
      if (mine === undefined) inside.write(data)
      else if (mine === 'lose') strike()
    })
    outside.on('close', () => inside.destroy())
    inside.on('close', () => {
      if (mine !== 'hold') outside.destroy()
    })

    function strike(): void {
      server.close()
      inside.destroy()
      happened()
    }
  })
  const listen = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  await listen(0)
  const { port } = server.address() as { port: number }
  atEndOfFile(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return {
    url: url.href,
    loseAnswer: () => void (fault = 'lose'),
    holdBack: () => void (fault = 'hold'),
    struck,
    up: () => listen(port),
    deliver() {
      const { outside, data } = held!
      return new Promise((resolve) => {
        let answer = ''
        outside.on('data', (piece) => {
          answer += piece.toString('latin1')
          // Ready for the next statement: this one is committed.
          if (answer.endsWith('Z\0\0\0\x05I')) resolve(answer)
        })
        outside.write(Buffer.concat(data))
      })
    },
  }
}
