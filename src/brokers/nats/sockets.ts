import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

const channel = 'net.client.socket'

/**
 * Runs what connects, and knows the sockets that it opens. The client library leaves a socket open when it gives up
 * connecting to a host that takes connections and says nothing: each probe of an outage would leave one more.
 */
export function trackSockets<T>(connect: () => Promise<T>): { connected: Promise<T>; destroy(): void } {
  const sockets = new Set<Socket>()
  const own = new AsyncLocalStorage<true>()
  let given = false

  const onSocket = (message: unknown): void => {
    if (own.getStore() !== true) return
    const { socket } = message as { socket: Socket }
    if (given) socket.destroy()
    else sockets.add(socket)
  }

  function destroy(): void {
    given = true
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }

  async function run(): Promise<T> {
    try {
      return await own.run(true, connect)
    } catch (error) {
      destroy()
      throw error
    } finally {
      unsubscribe(channel, onSocket)
      own.disable()
      sockets.clear()
    }
  }

  subscribe(channel, onSocket)
  return { connected: run(), destroy }
}
