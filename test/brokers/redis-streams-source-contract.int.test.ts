import { afterAll, describe, it } from 'vitest'
import { testSource } from '../../src/testing/source-contract.ts'
import { describeWith } from '../support/services.ts'
import { redisStreamsSourceSubject } from './redis-streams-subject.ts'

describeWith('redis-server', 'with Redis', () => {
  for (const readers of ['exclusive', 'shared'] as const) {
    testSource(redisStreamsSourceSubject(`redis-streams, ${readers}`, readers), { describe, it, afterAll })
  }
})
