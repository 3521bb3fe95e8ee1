import type { Redis } from 'ioredis'
import type { Lease } from '../reading/reading.ts'

/**
 * A key that only its owner prolongs, and that ends by itself: by `WATCH`, so that no script is needed. The client must
 * do nothing else that watches.
 */
export function redisLease(redis: Redis, key: string, owner: string, leaseMs: number): Lease {
  /** Runs a command on the key while it is ours; false when it is not. */
  async function whileOurs(command: [name: string, ...args: (string | number)[]]): Promise<boolean> {
    await redis.watch(key)
    if ((await redis.get(key)) !== owner) {
      await redis.unwatch()
      return false
    }
    const replies = await redis.multi([command]).exec()
    return replies?.[0]?.[1] === 1
  }

  const renew = () => whileOurs(['pexpire', key, leaseMs])
  return {
    async acquire() {
      return (await redis.set(key, owner, 'PX', leaseMs, 'NX')) === 'OK' || renew()
    },
    renew,
    async release() {
      await whileOurs(['del', key])
    },
  }
}
