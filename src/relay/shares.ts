import type { Share } from './aggregate.ts'

export interface SharesOptions {
  /** Events in memory for a destination that is alone. */
  capacity: number
  /** Characters of payload in memory, for all together. */
  maxBytes: number
  destinations: readonly string[]
  /** True while a destination takes nothing but probes. */
  isAway: (destination: string) => boolean
}

/** Events of a destination that is away which are enough to probe with. */
export const probesKept = 32

/**
 * Divides the memory among the destinations: each may have as many events as there is room left. So one that takes
 * nothing gets half of it, two of them a third each, and there is always room for one more. One that is away gets no
 * more than it needs to be probed with.
 */
export class Shares {
  /** All of them; the last one is for events that go nowhere. */
  readonly all: readonly Share[]
  readonly #byName: ReadonlyMap<string | null, Share>
  readonly #nowhere: Share
  readonly #total: number
  readonly #maxBytes: number
  readonly #alone: boolean
  readonly #isAway: (destination: string) => boolean
  #events = 0
  #bytes = 0

  constructor({ capacity, maxBytes, destinations, isAway }: SharesOptions) {
    this.all = [...destinations, null].map(createShare)
    this.#nowhere = this.all.at(-1)!
    this.#byName = new Map(this.all.map((share) => [share.destination, share]))
    this.#alone = destinations.length === 1
    this.#total = this.#alone ? capacity : capacity * 2
    this.#maxBytes = maxBytes
    this.#isAway = isAway
  }

  of(destination: string | null): Share {
    return this.#byName.get(destination) ?? this.#nowhere
  }

  /** How many more events of this destination may come into memory; 0 or less: none. */
  room(share: Share): number {
    const free = this.#total - this.#events
    const freeBytes = this.#maxBytes - this.#bytes
    if (share.destination === null) return this.#total
    if (this.#alone) return freeBytes > 0 ? free : 0
    if (freeBytes <= share.bytes) return 0
    const room = Math.floor((free - share.events) / 2)
    return this.isAway(share) ? Math.min(room, probesKept - share.events) : room
  }

  /** Away, and others need the memory more. */
  isAway({ destination }: Share): boolean {
    return destination !== null && !this.#alone && this.#isAway(destination)
  }

  /** Reading little by little costs more than it brings: there must be room for a third of what is there already. */
  isOpen(share: Share): boolean {
    const room = this.room(share)
    return room > 0 && room * 3 >= share.events
  }

  /** What is read of it stays in the table: it has no room, or earlier events wait there. */
  isClosed(share: Share): boolean {
    return share.shut || share.owing > 0
  }

  /** True when events of some destination stay in the table. */
  get anyClosed(): boolean {
    return this.all.some((share) => this.isClosed(share))
  }

  /** How many of its events a read may bring in; 0: it has no room. */
  #roomForNew(share: Share): number {
    // Nobody waits for one that is away, and what a read brings beyond the probes is not much.
    if (this.isAway(share)) return share.events < probesKept ? Infinity : 0
    return this.isOpen(share) ? this.room(share) : 0
  }

  /**
   * How many new events to read. Usually 0 until every destination has room; with `passing` those without room are
   * shut for this time.
   */
  readable(passing: boolean): number {
    const full: Share[] = []
    let rooms: number[] = []
    for (const share of this.all) {
      share.shut = false
      if (share.destination === null || share.owing > 0) continue
      const room = this.#roomForNew(share)
      if (room > 0) rooms.push(room)
      else full.push(share)
    }
    if (rooms.length === 0 || (full.length > 0 && !passing)) return 0
    for (const share of full) share.shut = true
    rooms = rooms.filter((room) => room !== Infinity)
    return rooms.length > 0 ? Math.min(...rooms) : probesKept
  }

  /** True when `readable` finds somebody with room, whether or not others have. */
  get anyOpen(): boolean {
    return this.all.some(
      (share) => share.destination !== null && share.owing === 0 && this.#roomForNew(share) > 0,
    )
  }

  add(share: Share, bytes: number): void {
    share.events++
    share.bytes += bytes
    this.#events++
    this.#bytes += bytes
  }

  remove(share: Share, bytes: number): void {
    share.events--
    this.#events--
    this.shrink(share, bytes)
  }

  /** An event stays in memory, without its payload. */
  shrink(share: Share, bytes: number): void {
    share.bytes -= bytes
    this.#bytes -= bytes
  }
}

function createShare(destination: string | null, index: number): Share {
  return {
    destination,
    index,
    events: 0,
    bytes: 0,
    owing: 0,
    shut: false,
    resumable: new Set(),
    arrearsFirst: false,
    passed: 0,
  }
}
