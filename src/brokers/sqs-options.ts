import { type OptionsInput, type OptionsOf, integer, object, string } from '../options.ts'
import { namePattern, nameOf } from './aws/names.ts'
import { awsOptions, region, usualBytes } from './aws/options.ts'

/** The name or the URL of a queue, in which the placeholder may stand. */
export function isQueue(text: string): boolean {
  const name = nameOf(text)
  const address = text.slice(0, -name.length)
  const fits = namePattern.test(name) && name.replace('{topic}', '').length <= 80
  return fits && (address === '' || (/^https?:\/\/[^{}]+\/$/.test(address) && URL.canParse(address)))
}

export const sqsOptions = object({
  queue: string({
    accepts: isQueue,
    expected: 'the name or the URL of a queue, in which {topic} may stand for the topic of the event',
  })
    .default('{topic}.fifo')
    .describe(
      'the queue of an event, which must exist; dots of the topic become hyphens. With `.fifo` at the end: FIFO ' +
        'queues, otherwise standard ones',
    ),
  region,
  maxMessageBytes: integer({ min: 1, max: 1_048_576 })
    .default(usualBytes)
    .describe(
      'a message with more, body and headers together, makes its event a dead letter, in bytes; also the most for ' +
        'one request. AWS takes up to 1 MiB, older emulators 256 KiB',
    ),
  ...awsOptions,
})

export type SqsSettings = OptionsOf<typeof sqsOptions>
/** What a user may write for an SQS destination. */
export type SqsOptions = OptionsInput<typeof sqsOptions>
