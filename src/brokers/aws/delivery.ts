import type { Message } from '@aws-sdk/client-sqs'
import type { HeaderPair } from '../../publishing/headers.ts'
import type { Delivery } from '../../publishing/source.ts'
import { nameOf } from './names.ts'

/** A message of SQS as a delivery: sent there, or by SNS with raw delivery or without. */
export function toDelivery(queue: string, message: Message, lost: AbortSignal): Delivery {
  const { Body = '', MessageId = '', MessageAttributes = {}, Attributes = {} } = message
  const attributes = Object.entries(MessageAttributes).map(
    ([name, { StringValue, BinaryValue }]): Attribute => [name, StringValue ?? textOf(BinaryValue)],
  )
  const sent = (attributes.length === 0 ? unwrap(Body) : undefined) ?? { body: Body, attributes }
  const name = nameOf(queue)
  return {
    binding: 'sqs',
    body: sent.body,
    headers: sent.attributes.filter((pair): pair is HeaderPair => pair[1] !== undefined),
    contentType: null,
    // The topic that the publisher made the name from had no such end.
    topic: name.replace(/\.fifo$/, ''),
    key: Attributes.MessageGroupId ?? null,
    origin: `sqs:${name}/${MessageId}`,
    redelivered: Number(Attributes.ApproximateReceiveCount ?? 1) > 1,
    lost,
  }
}

type Attribute = readonly [name: string, value: string | undefined]

function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8')
}

interface Notification {
  readonly Type?: unknown
  readonly TopicArn?: unknown
  readonly Message?: unknown
  readonly MessageAttributes?: Readonly<Record<string, { Type?: unknown; Value?: unknown } | null>>
}

/** What SNS wraps where raw delivery is off. Undefined for anything else. */
function unwrap(body: string): { body: string; attributes: Attribute[] } | undefined {
  if (!body.includes('"Notification"') || !body.includes('"TopicArn"')) return undefined
  const found = parse(body)
  if (found?.Type !== 'Notification' || typeof found.TopicArn !== 'string') return undefined
  if (typeof found.Message !== 'string') return undefined
  const attributes = Object.entries(found.MessageAttributes ?? {}).map(([name, attribute]): Attribute => {
    const text = typeof attribute?.Value === 'string' ? attribute.Value : undefined
    const isBinary = attribute?.Type === 'Binary'
    return [name, isBinary ? Buffer.from(text ?? '', 'base64').toString('utf8') : text]
  })
  return { body: found.Message, attributes }
}

function parse(text: string): Notification | undefined {
  try {
    return JSON.parse(text) as Notification | undefined
  } catch {
    return undefined
  }
}
