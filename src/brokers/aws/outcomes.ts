import { describeError } from '../../errors.ts'
import {
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
} from '../../publishing/publisher.ts'
import { type AwsMeaning, codeOf, meaningOfCode, noRegion } from './answers.ts'
import { nameOf } from './names.ts'

/** What AWS says about one entry of a batch that it does not take. */
export interface FailedEntry {
  readonly Code?: string | undefined
  readonly Message?: string | undefined
  readonly SenderFault?: boolean | undefined
}

export interface OutcomeContext {
  /** Of the destination. */
  readonly name: string
  /** `queue` or `topic`, for messages. */
  readonly kind: string
  readonly place: string
  readonly region: string
  /** Another queue or topic of this destination takes messages: so a fault of this one is no outage. */
  readonly othersWork: boolean
}

/** The pause after AWS asked for less, in milliseconds: it does not say how long, and counts by the second. */
const throttlePauseMs = 1000

/** The meaning of a failed entry: by its code, and where that is not known by whose fault AWS says it is. */
export function meaningOfEntry({ Code = '', SenderFault }: FailedEntry): AwsMeaning {
  const known = meaningOfCode(codeOf(Code))
  // Others of the same request got through, or may have: so this is about the one entry.
  if (known === 'internal') return 'unknown'
  return known ?? (SenderFault === true ? 'message' : 'unknown')
}

/** The result for a message that was not taken. `cause` is an error, or what AWS said about the entry. */
export function toFailure(
  meaning: AwsMeaning,
  code: string,
  cause: unknown,
  context: OutcomeContext,
): PublishResult {
  const text = `${context.name}: ${sentenceOf(meaning, code, textOf(cause), context)}`
  const options = cause instanceof Error ? { cause } : {}
  switch (meaning) {
    case 'throttled':
      return retry(brokerUnavailable(text, { ...options, afterMs: throttlePauseMs }))
    case 'credentials':
    case 'away':
    case 'internal':
      return retry(brokerUnavailable(text, options))
    case 'missing':
    case 'denied':
      return retry(context.othersWork ? publishFailed(text, options) : brokerUnavailable(text, options))
    case 'message':
      return { status: 'reject', error: rejectedBy(code, text, options) }
    case 'silent':
      return retry(publishTimeout(text, options))
    default:
      return retry(publishFailed(text, options))
  }
}

function retry(error: Error): PublishResult {
  return { status: 'retry', error }
}

interface SentenceContext extends Pick<OutcomeContext, 'kind' | 'place' | 'region'> {
  /** What else to do when it does not exist. */
  readonly otherwise?: string
}

/** What happened, in one sentence, without the name of the destination or source. */
export function sentenceOf(
  meaning: AwsMeaning,
  code: string,
  text: string,
  { kind, place, region, otherwise = 'give the event another topic by a route' }: SentenceContext,
): string {
  const which = `${kind} ${JSON.stringify(nameOf(place))}`
  const said = text === '' ? code : `${code}: ${text}`
  switch (meaning) {
    case 'missing':
      return `there is no ${which} in ${region} (${code}): create it, or ${otherwise}`
    case 'denied':
      return `${which} may not be used (${said}): allow it in the policies of the role, the ${kind} and its key`
    case 'credentials':
      return code === noRegion
        ? 'the AWS SDK finds no region: set the option `region` or the variable AWS_REGION'
        : `AWS accepts no credentials here (${said}): set or renew what its SDK looks for, such as ` +
            'AWS_ACCESS_KEY_ID, AWS_PROFILE or the role of the machine'
    case 'throttled':
      return `${which} takes no more for a moment (${said})`
    case 'message':
      return `${which} refused the message (${said})`
    case 'away':
      return `no connection to AWS (${said})`
    default:
      return `${which}: ${said}`
  }
}

function textOf(cause: unknown): string {
  if (cause instanceof Error) return describeError(cause, 300)
  return describeError((cause as FailedEntry).Message ?? '', 300)
}
