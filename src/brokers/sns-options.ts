import { type OptionsInput, type OptionsOf, integer, object, string } from '../options.ts'
import { namePattern, nameOf } from './aws/names.ts'
import { awsOptions, usualBytes } from './aws/options.ts'

function isTopicArn(text: string): boolean {
  const name = nameOf(text)
  const fits = namePattern.test(name) && name.replace('{topic}', '').length <= 256
  return fits && /^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:$/.test(text.slice(0, -name.length))
}

export const snsOptions = object({
  topicArn: string({
    accepts: isTopicArn,
    expected: 'the ARN of an SNS topic, in which {topic} may stand for the topic of the event',
  }).describe(
    'the SNS topic of an event, which must exist: `arn:aws:sns:eu-central-1:123456789012:{topic}.fifo`; dots of ' +
      "the event's topic become hyphens. With `.fifo` at the end: FIFO topics, otherwise standard ones",
  ),
  maxMessageBytes: integer({ min: 1, max: usualBytes })
    .default(usualBytes)
    .describe(
      'a message with more, body and headers together, makes its event a dead letter, in bytes; also the most for ' +
        'one request',
    ),
  ...awsOptions,
})

export type SnsSettings = OptionsOf<typeof snsOptions>
/** What a user may write for an SNS destination. */
export type SnsOptions = OptionsInput<typeof snsOptions>
