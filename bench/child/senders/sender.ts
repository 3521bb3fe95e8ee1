import type { Message } from '../../../src/publishing/publisher.ts'

/** Where the messages go. */
export interface SenderTarget {
  address: string
  topic: string
}

/** A client of a broker, connected, that knows all batches beforehand. */
export interface Sender {
  /** Resolves when every message of this batch is confirmed. */
  send(batch: number): Promise<void>
  close(): Promise<void>
}

type OpenSender = (target: SenderTarget, batches: readonly (readonly Message[])[]) => Promise<Sender>

/** Both sides of one broker. */
export interface Senders {
  waybill: OpenSender
  /** The same records by the broker's own client, made beforehand. */
  bare: OpenSender
}
