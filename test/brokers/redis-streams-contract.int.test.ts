import { afterAll, describe, it } from 'vitest'
import { testPublisher } from '../../src/testing/publisher-contract.ts'
import { describeWith } from '../support/services.ts'
import { redisStreamsSubject } from './redis-streams-subject.ts'

describeWith('redis', 'with Redis', () => {
  testPublisher(redisStreamsSubject('redis-streams'), { describe, it, afterAll })
})
