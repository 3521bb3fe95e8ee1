import type { OptionsOf, Spec } from '../options.ts'
import type { Publisher } from '../publishing/publisher.ts'

/** What a module of `brokers/` exports as `broker`, for the registry: its options and how a publisher is made. */
export interface Broker<S extends Spec = Spec> {
  /** Without `type` and `format`, which every destination has. */
  readonly options: S
  /**
   * @param name the destination's, shown in receipts, logs and metrics
   * @throws DEPENDENCY_MISSING when the broker's library is not installed
   */
  create(name: string, options: OptionsOf<S>): Publisher | Promise<Publisher>
}
