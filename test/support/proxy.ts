import { type Server, type Socket, connect, createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { atEndOfFile } from './cleanups.ts'

/** Stands between a client and a server on 127.0.0.1 and plays the faults of a network. */
export interface TcpProxy {
  readonly port: number
  /** Connections that are open now. */
  readonly connections: number
  /** Connections that were ever made. */
  readonly accepted: number
  /** Resets every connection (RST); new ones are taken as before. */
  reset(): void
  /**
   * From now on nothing gets through, in either direction, and nobody is told; `false` ends it for new bytes. With
   * `only`: for the open connections whose first piece from the client holds this text (PostgreSQL's start-up names
   * the application); their reconnections get through.
   */
  blackhole(on?: boolean, only?: string): void
  /** Holds back every piece of data by so many milliseconds, in both directions. */
  delay(ms: number): void
  /** New connections go to this port. */
  retarget(port: number): void
  /** Takes no connections any more (they are refused) and resets the open ones. */
  down(): Promise<void>
  /** Takes connections again, on the same port. */
  up(): Promise<void>
  /** Done by itself at the end of the test file. */
  close(): Promise<void>
}

export async function createProxy(targetPort: number): Promise<TcpProxy> {
  const open = new Set<Socket>()
  let target = targetPort
  let swallowAll = false
  const hellos = new Map<Socket, string>()
  const swallowed = new Set<Socket>()
  let delayMs = 0
  let accepted = 0
  const server: Server = createServer({ allowHalfOpen: true }, (inside) => {
    accepted++
    const outside = connect({ host: '127.0.0.1', port: target, allowHalfOpen: true })
    for (const socket of [inside, outside]) {
      open.add(socket.setNoDelay(true))
      socket.on('close', () => open.delete(socket))
    }
    inside.once('data', (data) => hellos.set(inside, data.toString('latin1')))
    inside.on('close', () => hellos.delete(inside))
    const swallow = () => swallowAll || swallowed.has(inside)
    pipe(inside, outside, swallow)
    pipe(outside, inside, swallow)
  })

  /** In order, also when the delay changes: each piece waits for the one before it. */
  function pipe(from: Socket, to: Socket, swallow: () => boolean): void {
    let last = Promise.resolve()
    const later = (act: () => void): void => {
      const ms = delayMs
      last = last.then(async () => {
        if (ms > 0) await pause(ms)
        act()
      })
    }
    from.on('data', (data) => {
      if (swallow()) return
      if (!to.writableNeedDrain) return later(() => to.write(data))
      from.pause()
      to.once('drain', () => from.resume())
      later(() => to.write(data))
    })
    from.on('end', () => {
      if (!swallow()) later(() => to.end())
    })
    // One side's fault is the other's, unless nobody may notice.
    from.on('error', () => undefined)
    from.on('close', () => {
      if (!swallow()) to.destroy()
    })
  }

  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject)
        resolve()
      })
    })
  const reset = () => open.forEach((socket) => socket.resetAndDestroy())
  const down = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      reset()
    })

  await listen(0)
  const { port } = server.address() as { port: number }
  const close = async () => {
    if (server.listening) await down()
  }
  atEndOfFile(close)
  return {
    port,
    get connections() {
      return open.size / 2
    },
    get accepted() {
      return accepted
    },
    reset,
    blackhole(on = true, only) {
      if (only === undefined) swallowAll = on
      if (!on) swallowed.clear()
      if (!on || only === undefined) return
      for (const [socket, hello] of hellos) if (hello.includes(only)) swallowed.add(socket)
      if (swallowed.size === 0) throw new Error(`no open connection began with ${JSON.stringify(only)}`)
    },
    delay: (ms) => (delayMs = ms),
    retarget: (next) => (target = next),
    down,
    up: () => listen(port),
    close,
  }
}
