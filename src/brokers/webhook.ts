import { connect } from 'node:net'
import { describeError } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import { createSharedAbort } from '../pause.ts'
import { createEncoder } from '../publishing/format.ts'
import {
  type Message,
  type Publisher,
  type PublishResult,
  brokerUnavailable,
  publishTimeout,
  undeliverable,
} from '../publishing/publisher.ts'
import { type Abortion, whenAborted } from './abort.ts'
import type { Broker } from './broker.ts'
import { type Exchange, startExchange } from './http/exchange.ts'
import { type Outcome, createJudge } from './http/judge.ts'
import { createPools } from './http/pools.ts'
import { createSigner } from './http/signature.ts'
import { type Target, computedTarget, configuredTarget } from './http/targets.ts'
import { createLanes } from './lanes.ts'
import { type WebhookOptions, type WebhookSettings, webhookOptions } from './webhook-options.ts'

export { webhookSource } from './webhook-source.ts'
export type { NodeRequest, NodeResponse, WebhookSource, WebhookSourceOptions } from './webhook-source.ts'
export type { ClassifyAnswer, WebhookAnswer, WebhookOptions } from './webhook-options.ts'

/**
 * Delivers each event as one `POST` to a URL: body, headers and Standard Webhooks signature as
 * `docs/brokers/webhook.md` says.
 *
 * @throws CONFIGURATION_INVALID
 */
export function webhookPublisher(options: WebhookOptions & { name?: string }): Publisher {
  const { name = 'webhook', ...rest } = options
  return createPublisher(name, resolveOptions(webhookOptions, rest, { path: name }))
}

export const broker: Broker<typeof webhookOptions> = { options: webhookOptions, create: createPublisher }

function createPublisher(name: string, settings: WebhookSettings): Publisher {
  const { connections, timeoutMs, maxMessageBytes, allowPrivateAddresses, ca } = settings
  const secrets = settings.secret === undefined ? [] : [settings.secret].flat()
  const sign = secrets.length === 0 ? undefined : createSigner(secrets)
  const configured = configuredTarget(settings.url, settings.headers)
  const judge = createJudge(settings, [...secrets, ...Object.values(settings.headers)])
  const encoder = createEncoder({
    binding: 'http',
    cloudEventsSource: settings.cloudEventsSource,
    reserved: ['user-agent', ...Object.keys(settings.headers)],
  })
  const pools = createPools({ connections, connectTimeoutMs: timeoutMs, ca })
  const lanes = createLanes(connections)
  const closing = createSharedAbort()

  function start(message: Message, target: Target): Exchange {
    if (maxMessageBytes !== undefined && Buffer.byteLength(message.body) > maxMessageBytes) {
      throw undeliverable(`the body is larger than the ${maxMessageBytes} bytes that ${name} takes`)
    }
    const { body, contentType, headers } = encoder.encode(message)
    const flat = ['content-type', contentType, 'webhook-id', message.messageId]
    if (sign !== undefined) {
      const { timestamp, signature } = sign(message.messageId, body, Date.now())
      flat.push('webhook-timestamp', timestamp, 'webhook-signature', signature)
    }
    for (const [header, value] of headers) flat.push(header, value)
    flat.push(...target.headers)
    const pool = pools.get(target, target.computed && !allowPrivateAddresses)
    return startExchange(pool, { path: target.path, headers: flat, body }, timeoutMs)
  }

  async function deliver(message: Message, call: Abortion): Promise<Outcome> {
    const leave = await lanes.enter(call)
    if (leave === null) return { result: notSent, connected: true }
    let target = configured
    let forget: (() => void) | undefined
    try {
      if (message.url !== null) target = computedTarget(message.url, configured)
      const { answer, cancel } = start(message, target)
      forget = call.onAbort(() => cancel('the call was given up'))
      return { result: judge.answer(await answer, target), connected: true }
    } catch (error) {
      return judge.failure(error, target)
    } finally {
      forget?.()
      leave()
    }
  }

  return {
    name,
    capabilities: {
      ordering: 'per-call',
      deduplication: false,
      // More would wait for a free connection while the time of their call runs.
      maxBatchSize: connections,
      ...(maxMessageBytes === undefined ? {} : { maxMessageBytes }),
    },
    observe: (observer) => encoder.observe(observer),
    async publish(messages, { signal, onPublished }) {
      if (closing.signal.aborted) throw brokerUnavailable(`${name} is closed`)
      const call = whenAborted(signal, closing.signal)
      try {
        const outcomes = await Promise.all(
          messages.map(async (message, index) => {
            const outcome = await deliver(message, call)
            if (outcome.result.status === 'published') onPublished?.(index, outcome.result.receipt)
            return outcome
          }),
        )
        const [first] = outcomes
        if (first?.result.status === 'retry' && outcomes.every(({ connected }) => !connected)) {
          throw first.result.error
        }
        return outcomes.map(({ result }) => result)
      } finally {
        call.release()
      }
    },
    checkHealth: ({ signal }) => checkReachable(configured.url, signal),
    async close() {
      closing.abort()
      await pools.destroy()
    },
  }
}

const notSent: PublishResult = {
  status: 'retry',
  error: publishTimeout('not sent: the call ended before a connection was free'),
  afterMs: 0,
}

function checkReachable(url: URL, signal: AbortSignal): Promise<void> {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, signal })
    socket.once('connect', () => {
      socket.destroy()
      resolve()
    })
    socket.once('error', (cause) => {
      reject(brokerUnavailable(`cannot connect to ${url.origin}: ${describeError(cause, 300)}`, { cause }))
    })
  })
}
