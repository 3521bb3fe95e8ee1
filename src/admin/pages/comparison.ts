import { html } from 'hono/html'
import type { Fact } from '../../publications/facts/fact.ts'
import type { ReadFact } from '../../publications/facts/read.ts'
import { type Tone, reaches } from '../../publications/timeline.ts'
import type { Trace } from '../../publications/trace.ts'
import { type Html, brief, foreign, mark, moment, pairs } from './layout.ts'

interface Side {
  readonly name: string
  /** What it shows: a revision, or why there is none. */
  readonly shows: string
  readonly tone: Tone
  readonly more: readonly (readonly [term: string, text: Html | string | null])[]
}

/** What the source, each projection and each public read show of the aggregate, beside each other. */
export function comparison({ facts, revision, tracedAt }: Trace): Html {
  const sides = [
    sideOf('source', facts.source, ({ newestRevision }) => ({
      ...shown(newestRevision, revision, 'no row'),
      more: [['Where', foreign(facts.source.source)]],
    })),
    ...facts.projections.map(({ name, fact }) =>
      sideOf(`projection ${name}`, fact, ({ revision: held, skippedTo, rows, appliedAt }) => ({
        ...shown(held, revision, skippedTo === null ? 'does not know it' : 'released, none applied since'),
        more: [
          ['Rows in its table', rows === null ? null : String(rows)],
          ['Applied', appliedAt === null ? null : moment(appliedAt, tracedAt)],
        ],
      })),
    ),
    ...facts.reads.map(({ name, fact }) =>
      sideOf(`read ${name}`, fact, (read) => ({
        ...shown(read.revision, revision, 'no revision'),
        more: readDetails(read, tracedAt),
      })),
    ),
  ].filter((side) => side !== null)
  if (sides.length < 2) return html``
  return html`<section class="card" aria-labelledby="compared">
    <h2 id="compared">What each shows</h2>
    <ul class="side">
      ${sides.map(
        ({ name, shows, tone, more }) =>
          html`<li>
            <h3>${brief(name)}</h3>
            <div class="figure ${tone}">${mark(tone)} ${shows}</div>
            ${pairs(more)}
          </li>`,
      )}
    </ul>
  </section>`
}

function sideOf<T>(name: string, fact: Fact<T>, tell: (value: T) => Omit<Side, 'name'>): Side | null {
  if (fact.status === 'not-configured') return null
  if (fact.status === 'unknown')
    return { name, shows: 'unknown', tone: 'open', more: [['Why', foreign(fact.reason)]] }
  return { name, ...tell(fact.value) }
}

function shown(
  held: string | null,
  revision: string | null,
  otherwise: string,
): Pick<Side, 'shows' | 'tone'> {
  return {
    shows: held === null ? otherwise : `revision ${held}`,
    tone: reaches(held, revision) ? 'good' : 'open',
  }
}

function readDetails(read: ReadFact, now: string): Side['more'] {
  return [
    ['Why', read.noRevision === null ? null : foreign(read.noRevision)],
    ['HTTP', `${read.httpStatus}, in ${read.tookMs} ms`],
    ...Object.entries(read.headers).map(([name, value]) => [name, foreign(value)] as const),
    ['Asked', html`<div class="mono">${foreign(read.url)}</div>`],
    ['Answered', moment(read.answeredAt, now)],
  ]
}
