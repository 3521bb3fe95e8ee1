import {
  type Message,
  type PublishResult,
  publishFailed,
  publishTimeout,
} from '../../publishing/publisher.ts'
import { type Outgoing, createGrouping, split } from './groups.ts'
import { type KafkaFailure, toResult } from './outcomes.ts'
import { type Placed, giveReceipts } from './receipts.ts'

/** `placed`: all of them are safe. `failure`: at least one is not. `aborted`: nobody waits any more. */
export type Sent = { readonly placed: readonly Placed[] } | SendFailure | 'aborted'

export interface SendFailure {
  readonly failure: KafkaFailure
  readonly error: unknown
}

/** Hands records over and waits for the answer. After `failure: 'producer'` the next ones have another producer. */
export type Send = (group: readonly Outgoing[]) => Promise<Sent>

/** Brings the messages of calls to Kafka, so that a bad one fails alone and each aggregate keeps its order. */
export interface Delivery {
  /** Gives a result to each that has none yet. Nothing is sent behind one of its aggregate that was not published. */
  deliver(messages: readonly (Outgoing | Refused)[], send: Send): Promise<void>
}

/** A message that cannot be put into Kafka's terms. */
export interface Refused {
  readonly message: Message
  readonly result: PublishResult
}

// Failures that concern whatever is sent next as well.
const endOfCall: ReadonlySet<KafkaFailure> = new Set<KafkaFailure>(['away', 'cluster', 'lost', 'producer'])

export function createDelivery(options: { name: string; maxMessageBytes: number }): Delivery {
  const { name } = options
  const grouping = createGrouping(options)

  async function deliver(messages: readonly (Outgoing | Refused)[], send: Send): Promise<void> {
    const outgoing = withoutRefused(messages)
    /** Aggregates of which one message was sent and not published. */
    const held = new Set<string>()
    let renewed = false

    function mayFollow(message: Outgoing): boolean {
      if (!held.has(aggregateOf(message))) return true
      message.result = behindAnother
      return false
    }

    function fail(message: Outgoing, { error, failure }: SendFailure): void {
      message.result = toResult(name, message.topic, error, failure)
      held.add(aggregateOf(message))
    }

    /** Answers what ended the call, when that happened. */
    async function deliverGroup(group: readonly Outgoing[]): Promise<SendFailure | 'aborted' | undefined> {
      const open = held.size === 0 ? group : group.filter(mayFollow)
      if (open.length === 0) return undefined
      const sent = await send(open)
      if (sent === 'aborted') return sent
      if ('placed' in sent) {
        for (const message of giveReceipts(open, sent.placed)) fail(message, unmentioned)
        grouping.worked(open)
        return undefined
      }
      if (sent.failure === 'producer' && !renewed) {
        renewed = true
        return deliverGroup(open)
      }
      if (endOfCall.has(sent.failure)) return sent
      grouping.failed(open, sent.failure)
      const parts = split(open, sent.failure)
      if (parts.length > 1) return deliverAll(parts)
      for (const message of open) fail(message, sent)
      return undefined
    }

    async function deliverAll(groups: readonly (readonly Outgoing[])[]) {
      for (const group of groups) {
        const end = await deliverGroup(group)
        if (end !== undefined) return end
      }
      return undefined
    }

    const end = await deliverAll(grouping.groupsOf(outgoing))
    for (const message of outgoing) {
      if (message.result !== undefined) continue
      if (end !== undefined && end !== 'aborted') fail(message, end)
      else message.result = { status: 'retry', error: publishTimeout(`${name} did not answer in time`) }
    }
  }

  return { deliver }
}

/** What may be sent: neither what cannot be, nor what comes behind such a one of its aggregate. */
function withoutRefused(messages: readonly (Outgoing | Refused)[]): Outgoing[] {
  const refused = new Set<string>()
  const outgoing: Outgoing[] = []
  for (const message of messages) {
    if (!('record' in message)) refused.add(aggregateOf(message))
    else if (refused.size > 0 && refused.has(aggregateOf(message))) message.result = behindAnother
    else outgoing.push(message)
  }
  return outgoing
}

function aggregateOf({ message: { aggregateType, aggregateId } }: { message: Message }): string {
  return `${aggregateType}\u0000${aggregateId}`
}

const unmentioned: SendFailure = {
  failure: 'lost',
  error: new Error('the answer says nothing about this message'),
}

const behindAnother: PublishResult = {
  status: 'retry',
  error: publishFailed('not sent: an earlier event of this aggregate did not get through'),
  afterMs: 0,
}
