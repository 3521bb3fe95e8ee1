import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis-5'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { testPublisher } from '../../src/testing/publisher-contract.ts'
import { testSource } from '../../src/testing/source-contract.ts'
import { describeWith } from '../support/services.ts'
import { redisStreamsSourceSubject, redisStreamsSubject } from './redis-streams-subject.ts'

// The older major of the same library, which many have.
vi.mock('ioredis', () => import('ioredis-5'))

describeWith('redis', 'with Redis and ioredis 5', () => {
  it('is what this file uses', () => expect(Redis).toBe(Redis5))

  testPublisher(redisStreamsSubject('redis-streams'), { describe, it, afterAll })
})

describeWith('redis-server', 'reading from Redis with ioredis 5', () => {
  testSource(redisStreamsSourceSubject('redis-streams', 'exclusive'), { describe, it, afterAll })
})
