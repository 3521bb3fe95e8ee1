import { logs } from './fixtures/brokers.ts'
import { testRow } from './fixtures/matrix.ts'

// Kafka, NATS JetStream, Redis Streams.
logs.forEach(testRow)
