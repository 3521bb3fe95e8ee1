import type { Action } from '../context.ts'

/** Runs the relay. */
export function relayCommand(_flags: { once?: boolean; port?: string }): Action {
  return async ({ load }) => {
    await load('relay')
    throw new Error('the relay is not wired yet')
  }
}
