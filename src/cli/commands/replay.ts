import type { Action } from '../context.ts'
import { type DecisionFlags, keyOf } from './intent-create.ts'

/** Repeats exactly one key. */
export function replayCommand(
  words: readonly string[],
  flags: DecisionFlags & { allowOlder?: boolean },
): Action {
  const key = keyOf(words, flags)
  return ({ output, withDatabase }) =>
    withDatabase(async (db, configuration) => {
      const { openFactSources } = await import('../../publications/fact-sources.ts')
      const { collectFacts } = await import('../../publications/collect.ts')
      const { replay, visibleRevision } = await import('../../publications/decisions.ts')
      const opened = openFactSources(db, configuration)
      try {
        const publication = opened.publications.get(key.type) ?? null
        const facts = await collectFacts(opened.sources, key, publication)
        const made = await replay(opened.sources.outbox, publication, key, {
          reason: flags.reason,
          allowOlder: flags.allowOlder === true,
          visibleRevision: visibleRevision(facts),
        })
        output.data(made)
        output.print(`${made.intentKey} goes out again, as replay ${made.number} of event ${made.eventId}`)
      } finally {
        await opened.close()
      }
    })
}
