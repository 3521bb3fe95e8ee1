import { isIP } from 'node:net'
import { type Dispatcher, Pool, buildConnector } from 'undici'
import { PrivateAddressError, isPrivateAddress, lookupPublic } from './addresses.ts'
import type { Target } from './targets.ts'

export interface PoolsOptions {
  /** Most connections to one origin. */
  connections: number
  connectTimeoutMs: number
  /** Certificates to trust instead of the built-in ones, PEM. */
  ca?: string | undefined
}

/** Connections by origin: few in most cases, but a route may compute an address for each event. */
export interface Pools {
  /** @throws PrivateAddressError when `guarded` and the origin is a private address. */
  get(target: Pick<Target, 'url' | 'origin'>, guarded: boolean): Dispatcher
  destroy(): Promise<void>
}

// Origins that are kept open. The one unused for longest goes first.
const originLimit = 100

export function createPools({ connections, connectTimeoutMs, ca }: PoolsOptions): Pools {
  const pools = new Map<string, Pool>()
  /** Used last: the last of the map. */
  let last: { origin: string; guarded: boolean; pool: Pool } | undefined
  const common = { timeout: connectTimeoutMs, allowH2: false, ...(ca === undefined ? {} : { ca }) }
  const open = buildConnector(common)
  const openPublic = buildConnector({ ...common, lookup: lookupPublic })

  return {
    get({ url, origin }, guarded) {
      if (last?.origin === origin && last.guarded === guarded) return last.pool
      const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
      // An address in numbers is never looked up, so it is checked here.
      if (guarded && isIP(host) !== 0 && isPrivateAddress(host)) {
        throw new PrivateAddressError(`${host} is not a public address`)
      }
      const key = `${guarded ? 'public' : 'any'} ${origin}`
      let pool = pools.get(key)
      if (pool !== undefined) pools.delete(key)
      else pool = new Pool(origin, { connections, connect: guarded ? openPublic : open })
      // Put back at the end: the order of the map is the order of last use.
      pools.set(key, pool)
      if (pools.size > originLimit) evict(pools)
      last = { origin, guarded, pool }
      return pool
    },
    async destroy() {
      const all = [...pools.values()]
      pools.clear()
      last = undefined
      await Promise.all(all.map((pool) => pool.destroy()))
    },
  }
}

/** Closes the pool unused for longest; what is under way there is finished first. */
function evict(pools: Map<string, Pool>): void {
  const [oldest] = pools
  if (oldest === undefined) return
  pools.delete(oldest[0])
  void oldest[1].close()
}
