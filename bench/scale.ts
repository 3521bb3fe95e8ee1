/** How much is done. The quick scale is for development: its figures say little. */
export interface Scale {
  quick: boolean
  drain: { rows: number; aggregates: number; warmUpRows: number; rounds: number }
  producers: { seconds: number; rounds: number; clients: readonly number[] }
  latency: { perSecond: number; seconds: number }
  claim: {
    /** Rows behind one aggregate that is stuck. */
    behindStuck: number
    /** Processed while an old snapshot keeps what they left in the index. */
    underSnapshot: number
    /** Processed rows that are kept. */
    kept: number
    dead: number
    /** Rows of one bucket whose destination is slow. */
    slow: number
    warmUpSeconds: number
    seconds: number
    rounds: number
  }
  memory: { pending: number; seconds: number }
  publishers: { batchSize: number; batches: number; warmUpBatches: number; rounds: number }
  operations: {
    /** Published rows that are kept, and dead letters among them. */
    kept: number
    pending: number
    seconds: number
    pruneBatches: number
  }
  /** Revisions of one publication. */
  audit: { revisions: number }
}

const full: Scale = {
  quick: false,
  drain: { rows: 200_000, aggregates: 5_000, warmUpRows: 20_000, rounds: 5 },
  producers: { seconds: 4, rounds: 3, clients: [1, 8, 32] },
  latency: { perSecond: 100, seconds: 20 },
  claim: {
    behindStuck: 500_000,
    underSnapshot: 500_000,
    kept: 10_000_000,
    dead: 200_000,
    slow: 200_000,
    warmUpSeconds: 3,
    seconds: 5,
    rounds: 3,
  },
  memory: { pending: 1_000_000, seconds: 15 },
  publishers: { batchSize: 200, batches: 150, warmUpBatches: 50, rounds: 5 },
  operations: { kept: 10_000_000, pending: 300_000, seconds: 15, pruneBatches: 200 },
  audit: { revisions: 1_000_000 },
}

const quick: Scale = {
  quick: true,
  drain: { rows: 20_000, aggregates: 500, warmUpRows: 5_000, rounds: 3 },
  producers: { seconds: 2, rounds: 1, clients: [1, 8, 32] },
  latency: { perSecond: 100, seconds: 4 },
  claim: {
    behindStuck: 20_000,
    underSnapshot: 20_000,
    kept: 400_000,
    dead: 8_000,
    slow: 8_000,
    warmUpSeconds: 2,
    seconds: 3,
    rounds: 1,
  },
  memory: { pending: 100_000, seconds: 4 },
  publishers: { batchSize: 200, batches: 50, warmUpBatches: 25, rounds: 3 },
  operations: { kept: 400_000, pending: 12_000, seconds: 4, pruneBatches: 20 },
  audit: { revisions: 50_000 },
}

/** `rounds` overrides the number of rounds of every part. */
export function chooseScale(isQuick: boolean, rounds: number | undefined): Scale {
  const scale = structuredClone(isQuick ? quick : full)
  if (rounds === undefined) return scale
  for (const part of [scale.drain, scale.producers, scale.claim, scale.publishers]) part.rounds = rounds
  return scale
}
