/**
 * `waybill/config`: for a configuration file in TypeScript or JavaScript.
 *
 *     import { defineConfig } from 'waybill/config'
 *
 *     export default defineConfig({
 *       databaseUrl: '${DATABASE_URL}',
 *       destinations: { out: { type: 'stdout' } },
 *     })
 */
import type { MessageFormat } from '../types.ts'
import type { OptionsInput } from '../options.ts'
import type { Publisher } from '../publishing/publisher.ts'
import type { PublisherDestination, configurationSpec } from './spec.ts'

type Written = OptionsInput<ReturnType<typeof configurationSpec>>

/** A destination as a user writes it: the broker's `type` and that broker's options, or a ready publisher. */
export type DestinationConfig =
  { type: string; format?: MessageFormat; [option: string]: unknown } | Publisher | PublisherDestination

/** What a configuration may hold; `docs/reference/configuration.md` describes each key. */
export type WaybillConfig = Omit<Written, 'destinations'> & {
  readonly destinations?: Readonly<Record<string, DestinationConfig>>
}

/** Gives the configuration its type; answers what it was given. */
export function defineConfig(config: WaybillConfig): WaybillConfig
export function defineConfig(
  config: () => WaybillConfig | Promise<WaybillConfig>,
): () => WaybillConfig | Promise<WaybillConfig>
export function defineConfig(config: unknown): unknown {
  return config
}
