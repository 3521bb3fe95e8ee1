import { Parked } from './parked.ts'

/** A destination to which buckets owe events. */
export interface Owed {
  readonly index: number
  readonly destination: string | null
  /** Buckets that owe. */
  owing: number
}

/**
 * What was left in the table of one bucket since its destination had no room. For each such destination there is a
 * position: of the aggregates that are parked for it everything above is in the table only, everything at or below
 * was brought into memory. Catching up is reading on from there, once for all of them.
 */
export class Arrears<Share extends Owed> {
  /** The position for each destination. */
  readonly #from = new Map<Share, bigint>()
  readonly #shares: readonly Share[]
  readonly #parked: Parked

  /** @param shares as their `index` says */
  constructor(shares: readonly Share[]) {
    this.#shares = shares
    this.#parked = new Parked((owner, upTo) => upTo > (this.#from.get(shares[owner]!) ?? upTo))
  }

  get isEmpty(): boolean {
    return this.#from.size === 0
  }

  /** Aggregates that are parked, and some that no longer are; `purge` forgets those. */
  get aggregates(): number {
    return this.#parked.size
  }

  purge(): void {
    this.#parked.purge()
  }

  /** Above which position this destination is owed; undefined when it is not. */
  from(share: Share): bigint | undefined {
    return this.#from.get(share)
  }

  /** For which destination the event of this aggregate at this position waits in the table, if it does. */
  claimed(key: string, position: bigint): Share | undefined {
    const slot = this.#parked.find(key)
    if (slot < 0) return undefined
    const share = this.#shares[this.#parked.owner(slot)]!
    return position > this.#from.get(share)! ? share : undefined
  }

  /** Another event of an aggregate that is parked was left in the table. `elsewhere` is asked only when it matters. */
  leave(key: string, position: bigint, elsewhere: () => boolean): void {
    const slot = this.#parked.find(key)
    this.#parked.see(slot, position)
    if (!this.#parked.isMixed(slot) && elsewhere()) this.#parked.setMixed(slot, true)
  }

  /** Leaves an aggregate in the table above a position; events of it may be there up to `upTo`. */
  park(key: string, share: Share, above: bigint, upTo: bigint): void {
    const before = this.#from.get(share)
    if (before === undefined) share.owing++
    if (before === undefined || above < before) this.#from.set(share, above)
    this.#parked.put(key, share.index, upTo)
  }

  /** An aggregate that is parked may have events that go elsewhere. */
  mix(key: string): void {
    const slot = this.#parked.find(key)
    if (slot >= 0) this.#parked.setMixed(slot, true)
  }

  /** Everything up to this position was brought into memory, or belongs to others. */
  advance(share: Share, position: bigint): void {
    this.#from.set(share, position)
  }

  /** Nothing is owed to this destination any more. */
  settle(share: Share): void {
    if (this.#from.delete(share)) share.owing--
  }

  settleAll(): void {
    for (const share of [...this.#from.keys()]) this.settle(share)
  }

  /**
   * Where to look for the next event of an aggregate of which nothing is in memory any more, if that next event
   * may go elsewhere than those that wait. Asks once; `leave` and `mix` make it worth another look.
   */
  seek(key: string): bigint | undefined {
    const slot = this.#parked.find(key)
    if (slot < 0 || !this.#parked.isMixed(slot)) return undefined
    this.#parked.setMixed(slot, false)
    return this.#from.get(this.#shares[this.#parked.owner(slot)]!)! + 1n
  }
}
