import { queues } from './fixtures/brokers.ts'
import { testRow } from './fixtures/matrix.ts'

// A webhook, RabbitMQ, SQS, SNS before SQS.
queues.forEach(testRow)
