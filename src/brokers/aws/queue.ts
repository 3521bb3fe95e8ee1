import type { Message } from '@aws-sdk/client-sqs'
import type { FailedEntry } from './outcomes.ts'

type Failed = readonly (FailedEntry & { Id?: string | undefined })[]

/** One queue of SQS, as its SDK reads it. All reject with the SDK's errors. */
export interface Queue {
  receive(most: number, waitSeconds: number, signal: AbortSignal): Promise<readonly Message[]>
  /** Deletes up to ten messages; answers with those that could not be, by their number. */
  remove(handles: readonly string[], signal: AbortSignal): Promise<Failed>
  /** Hides up to ten messages for so long from now; 0 shows them again. */
  hide(items: readonly { handle: string; seconds: number }[], signal: AbortSignal): Promise<Failed>
  region(): Promise<string>
  close(): void
}
