import { randomInt } from 'node:crypto'

const firstSlots = 64
/** So full a table may become, so that looks stay short; and so full it is left when it is made anew. */
const fullest = 0.7
const fullestAnew = 0.5
/** Nobody can prepare aggregate ids that meet in one slot. */
const seed = randomInt(2 ** 32)

/**
 * Remembers of very many aggregates, in a few bytes each, to which destination their events wait and up to which
 * position such events were seen. It knows an aggregate by a hash of 32 bits only: two that share one are treated as
 * if they were one, which can delay an event, and never lets it overtake.
 */
export class Parked {
  #hashes = new Uint32Array(firstSlots)
  #owners = new Uint16Array(firstSlots)
  #upTo = new BigInt64Array(firstSlots)
  #mixed = new Uint8Array(firstSlots)
  #used = 0
  readonly #isLive: (owner: number, upTo: bigint) => boolean

  /** @param isLive false for what need not be remembered any more */
  constructor(isLive: (owner: number, upTo: bigint) => boolean) {
    this.#isLive = isLive
  }

  /** What is remembered, and what need not be and was not forgotten yet. */
  get size(): number {
    return this.#used
  }

  get bytes(): number {
    const columns = [this.#hashes, this.#owners, this.#upTo, this.#mixed]
    return columns.reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  /** The slot of an aggregate, or -1. It is good until the next `put` or `purge`. */
  find(key: string): number {
    const slot = this.#slotOf(hashOf(key))
    return this.#hashes[slot] === 0 || !this.#isLive(this.#owners[slot]!, this.#upTo[slot]!) ? -1 : slot
  }

  /** Remembers an aggregate, or changes for whom its events wait; what was seen of it stays seen. */
  put(key: string, owner: number, upTo: bigint): void {
    const hash = hashOf(key)
    let slot = this.#slotOf(hash)
    if (this.#hashes[slot] === 0) {
      if (this.#used >= this.#hashes.length * fullest) {
        this.purge()
        slot = this.#slotOf(hash)
      }
      this.#hashes[slot] = hash
      this.#used++
    }
    const isLive = this.#isLive(this.#owners[slot]!, this.#upTo[slot]!)
    if (!isLive) this.#mixed[slot] = 0
    if (!isLive || upTo > this.#upTo[slot]!) this.#upTo[slot] = upTo
    this.#owners[slot] = owner
  }

  owner(slot: number): number {
    return this.#owners[slot]!
  }

  /** Another event of it was seen. */
  see(slot: number, position: bigint): void {
    if (position > this.#upTo[slot]!) this.#upTo[slot] = position
  }

  /** True when an event was seen that goes to another destination than the one for which it waits. */
  isMixed(slot: number): boolean {
    return this.#mixed[slot] === 1
  }

  setMixed(slot: number, mixed: boolean): void {
    this.#mixed[slot] = mixed ? 1 : 0
  }

  /** Forgets what is not live, and takes the size that the rest needs. */
  purge(): void {
    const [hashes, owners, upTo, mixed] = [this.#hashes, this.#owners, this.#upTo, this.#mixed]
    const live: number[] = []
    for (let i = 0; i < hashes.length; i++) {
      if (hashes[i] !== 0 && this.#isLive(owners[i]!, upTo[i]!)) live.push(i)
    }
    let slots = firstSlots
    while (live.length > slots * fullestAnew) slots *= 2
    this.#hashes = new Uint32Array(slots)
    this.#owners = new Uint16Array(slots)
    this.#upTo = new BigInt64Array(slots)
    this.#mixed = new Uint8Array(slots)
    this.#used = live.length
    for (const i of live) {
      const slot = this.#slotOf(hashes[i]!)
      this.#hashes[slot] = hashes[i]!
      this.#owners[slot] = owners[i]!
      this.#upTo[slot] = upTo[i]!
      this.#mixed[slot] = mixed[i]!
    }
  }

  /** Where this hash is, or would be. */
  #slotOf(hash: number): number {
    const mask = this.#hashes.length - 1
    let slot = hash & mask
    while (this.#hashes[slot] !== 0 && this.#hashes[slot] !== hash) slot = (slot + 1) & mask
    return slot
  }
}

/** FNV-1a over UTF-16 units, stirred once more since the low bits choose the slot. Never 0. */
function hashOf(key: string): number {
  let hash = seed
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0 || 1
}
