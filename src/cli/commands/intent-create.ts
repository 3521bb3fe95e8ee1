import type { Action } from '../context.ts'
import { checkText } from '../../input.ts'
import { checkRevision, checkScope } from '../../publications/key.ts'
import { given } from '../flags.ts'

export interface DecisionFlags {
  scope?: string
  reason: string
}

/** The key of `<type> <id> <revision> --scope`. */
export function keyOf([type, id, revision]: readonly string[], { scope }: { scope?: string }) {
  return {
    type: checkText('aggregate type', type),
    id: checkText('aggregate id', id),
    revision: checkRevision(revision),
    scope: checkScope(scope),
  }
}

/** The deliberate, recorded creation of an intent that is missing. */
export function intentCreateCommand(
  words: readonly string[],
  flags: DecisionFlags & { type?: string; payload?: string },
): Action {
  const key = keyOf(words, flags)
  return ({ output, withDatabase }) =>
    withDatabase(async (db, configuration) => {
      const { openFactSources } = await import('../../publications/fact-sources.ts')
      const { createIntent } = await import('../../publications/decisions.ts')
      const opened = openFactSources(db, configuration)
      try {
        const made = await createIntent(
          opened.sources.outbox,
          opened.publications.get(key.type) ?? null,
          key,
          {
            reason: flags.reason,
            ...given({ eventType: flags.type, payload: flags.payload }),
          },
        )
        output.data(made)
        output.print(`${made.intentKey} is decided, event ${made.eventId}`)
      } finally {
        await opened.close()
      }
    })
}
