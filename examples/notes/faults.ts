import { setTimeout as delay } from 'node:timers/promises'
import { hasCode } from '../../src/index.ts'
import type { Diagnosis, Trace } from '../../src/publications/index.ts'
import type { RelayProcess } from '../support/relay-process.ts'
import type { Network } from './network.ts'
import type { NotesService, Saved } from './notes-service.ts'
import type { PublicList } from './public-list.ts'

/** Which revision a fault has hit. */
export interface Key {
  id: string
  revision: number
}

/** What a fault can take away, and others need. */
export type Part = 'relay' | 'broker'

export interface Fault {
  name: string
  /** On the button. */
  title: string
  /** What is done. */
  does: string
  /** What trace must say of the revision that it hit. */
  expected: string
  /** What audit must call it; null: nothing is wrong. */
  symptom: string | null
  /** Without these it would wait for ever. */
  needs: readonly Part[]
  /** Gone until it is mended. */
  takes?: Part
  /** Does it, to a note of its own. */
  inject(): Promise<Key>
  /** Undoes it, and repairs what it left, unless somebody has done so. Left out: it is over as soon as it is done. */
  mend?(key: Key): Promise<void>
  mendNeeds?: readonly Part[]
}

export interface FaultParts {
  service: NotesService
  network: Network
  list: PublicList
  relay: RelayProcess
  diagnosis: Diagnosis
  /** Resolves when readers see this revision. */
  visible(key: Key): Promise<void>
}

const overdue = (cause: string) => ({
  expected: `intent-pending, intent-overdue, ${cause}`,
  symptom: 'intent-overdue',
})
const fine = { expected: 'projection-current, visible', symptom: null }
const delivery = ['relay', 'broker'] as const
const patienceMs = 20_000

/** Everything that can be done to the lab. */
export function createFaults(parts: FaultParts): readonly Fault[] {
  const { service, network, list, relay, diagnosis, visible } = parts
  const keyOf = ({ id, revision }: Saved): Key => ({ id, revision })
  const save = async (id: string, body: string) => keyOf(await service.save(id, body))
  const verdictOf = async (key: Key) => (await traceKey(diagnosis, key)).verdict

  /** Saves a note whose delivery meets a trick; resolves when the trick was played. */
  async function saveAnd(id: string, trick: (pass: () => Promise<number>) => Promise<number>): Promise<Key> {
    const played = network.playOnce(id, trick, patienceMs)
    const key = await save(id, 'a note on its way')
    await played
    return key
  }

  return [
    {
      name: 'relay-killed-after-commit',
      title: 'Kill the relay after the commit',
      does: 'The note is committed, the relay dies while it hands it over.',
      ...overdue('relay-late'),
      ...{ needs: delivery, takes: 'relay' },
      inject: () =>
        saveAnd('killed-early', async () => {
          await relay.kill({ hold: true })
          return 503
        }),
      mend: async () => relay.resume(),
    },
    {
      name: 'relay-killed-before-mark',
      title: 'Kill the relay between hand-over and mark',
      does: 'The list has applied it, the relay dies before that is on record: it will come again, and nothing is done then.',
      ...overdue('not-recorded'),
      ...{ needs: delivery, takes: 'relay' },
      inject: () =>
        saveAnd('killed-late', async (pass) => {
          const status = await pass()
          await relay.kill({ hold: true })
          return status
        }),
      mend: async () => relay.resume(),
    },
    {
      name: 'broker-away',
      title: 'Take the broker away',
      does: 'Connections of the relay are refused.',
      ...overdue('destination-down'),
      ...{ needs: [], takes: 'broker' },
      async inject() {
        await network.close()
        return save('broker-away', 'nobody takes this')
      },
      mend: () => network.open(),
    },
    {
      name: 'delivered-twice',
      title: 'Deliver twice',
      does: 'Two copies at the same moment. The second is absorbed.',
      ...fine,
      needs: delivery,
      inject: () =>
        saveAnd('twice', async (pass) => {
          const [status] = await Promise.all([pass(), pass()])
          return status
        }),
    },
    {
      name: 'out-of-order',
      title: 'Deliver out of order',
      does: 'A revision arrives after the next one: the network had said that it has it. The old one changes nothing.',
      ...fine,
      needs: delivery,
      async inject() {
        let late!: () => Promise<number>
        const first = await saveAnd('out-of-order', async (pass) => {
          late = pass
          return 204
        })
        await saveAnd('out-of-order', async (pass) => {
          const status = await pass()
          await late()
          return status
        })
        return first
      },
    },
    {
      name: 'consumer-rejects',
      title: 'Let the consumer reject',
      does: 'The public list refuses the event for good. Mended by a replay of exactly this key.',
      ...{ expected: 'intent-relayed, projection-old, consumer-rejected', symptom: 'projection-old' },
      ...{ needs: delivery, mendNeeds: delivery },
      inject() {
        list.refused.add('rejected')
        return save('rejected', 'nobody wants this')
      },
      async mend({ id }) {
        list.refused.delete(id)
        // With the newest revision the older ones are done.
        const key = await service.newest(id)
        const decision = { reason: 'the consumer is mended', by: 'the lab' }
        let isReplayed = false
        await becomes(async () => {
          const { state, cause } = await verdictOf(key)
          // Before it was handed over there is nothing to repeat.
          if (cause === 'consumer-rejected' && !isReplayed)
            isReplayed = await isTaken(diagnosis.replay({ type: 'note', ...key }, decision))
          return state === 'projection-current'
        }, `${id}:${key.revision} is replayed and does not show`)
      },
    },
    {
      name: 'stale-cache',
      title: 'Let a cache go stale',
      does: 'Readers get an old copy, which says so by its Age.',
      ...{ expected: 'projection-current, public-read-old, cached', symptom: 'public-read-old' },
      needs: delivery,
      async inject() {
        await visible(await save('cached', 'what the cache keeps'))
        await list.cache('cached')
        return save('cached', 'what readers should see')
      },
      mend: async ({ id }) => list.uncache(id),
    },
    {
      name: 'old-write-path',
      title: 'Write by an old path without intent',
      does: 'Saved, and nobody decided to publish it. A replay is refused; mended by an intent with its reason.',
      ...{ expected: 'note-only, intent-missing, no-intent', symptom: 'intent-missing' },
      needs: [],
      inject: async () => keyOf(await service.saveOldWay('forgotten', 'saved, and nobody was told')),
      async mend(key) {
        const decision = { reason: 'written by an old path', by: 'the lab' }
        await becomes(
          async () =>
            (await verdictOf(key)).symptom !== 'intent-missing' ||
            (await isTaken(diagnosis.createIntent({ type: 'note', ...key }, decision))),
          `${key.id}:${key.revision} gets no intent`,
        )
      },
    },
  ]
}

/** False when it is refused: somebody else has decided the same, or does at this moment. */
async function isTaken(decision: Promise<unknown>): Promise<boolean> {
  try {
    await decision
    return true
  } catch (error) {
    if (hasCode(error, 'ACTION_REFUSED')) return false
    throw error
  }
}

async function becomes(condition: () => Promise<boolean>, otherwise: string): Promise<void> {
  const limit = performance.now() + patienceMs
  while (!(await condition())) {
    if (performance.now() > limit) throw new Error(`after ${patienceMs / 1000} s ${otherwise}: ask trace`)
    await delay(50)
  }
}

export function traceKey(diagnosis: Diagnosis, { id, revision }: Key): Promise<Trace> {
  return diagnosis.trace({ type: 'note', id, revision: String(revision) })
}

/** What trace says, as faults expect it: state, symptom where there is one, cause. */
export function saysOf({ verdict }: Trace): string {
  return [verdict.state, verdict.symptom, verdict.cause].filter((word) => word !== null).join(', ')
}
