import { html, raw } from 'hono/html'
import { type Tone, questionsOf, stepsOf } from '../../publications/timeline.ts'
import type { Trace } from '../../publications/trace.ts'
import { printable } from '../../wording.ts'
import type { TraceForm } from '../request.ts'
import { comparison } from './comparison.ts'
import { type Html, brief, capital, errorCard, foreign, layout, mark, moment, pairs, utc } from './layout.ts'

export interface TracePageOptions {
  form: TraceForm
  /** Aggregate types that have a publication. */
  types: readonly string[]
  trace?: Trace
  error?: string
  canLogOut: boolean
}

/** A form for an aggregate and its revision, and below it the chain of what is known. */
export function tracePage({ form, types, trace, error, canLogOut }: TracePageOptions): Html {
  const title =
    trace === undefined ? 'Trace' : `${trace.intentKey ?? trace.aggregate.id} ${trace.verdict.state}`
  const heading =
    trace === undefined
      ? html`Where is it?`
      : html`${brief(trace.aggregate.type)} ${brief(trace.aggregate.id)},
        ${trace.revision === null ? 'event without a revision' : `revision ${trace.revision}`}`
  return layout({
    ...{ title, path: '/trace', canLogOut },
    body: html`<h1>${heading}</h1>
      ${traceForm(form, types)} ${error === undefined ? '' : errorCard(error)}
      ${trace === undefined ? (error === undefined ? help : '') : result(trace, form)}`,
  })
}

const help = html`<p>
  A trace looks up what is known of one revision of one aggregate: in its own table, in the outbox, at the
  consumers, in the projections, and in the public reads. It changes nothing.
</p>`

function traceForm({ type, id, revision, scope, follow }: TraceForm, types: readonly string[]): Html {
  const typed = type === '' && types.length === 1 ? types[0]! : type
  return html`<form class="ask" role="search" action="/trace" aria-label="Trace a publication">
    <div>
      <label for="type">Aggregate type</label
      ><input
        id="type"
        name="type"
        value="${typed}"
        list="types"
        required
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
        dir="auto"
      />
      <datalist id="types">${types.map((name) => html`<option value="${name}"></option>`)}</datalist>
    </div>
    <div class="wide">
      <label for="id">Aggregate id</label
      ><input
        id="id"
        name="id"
        value="${id}"
        required
        autocomplete="off"
        autocapitalize="off"
        spellcheck="false"
        dir="auto"
      />
    </div>
    <div>
      <label for="revision">Revision</label
      ><input
        id="revision"
        name="revision"
        value="${revision}"
        placeholder="newest"
        inputmode="numeric"
        autocomplete="off"
      />
    </div>
    ${scope === '' ? '' : html`<div><label for="scope">Scope</label><input id="scope" name="scope" value="${scope}" autocomplete="off" /></div>`}
    <div class="check">
      <input type="checkbox" id="follow" name="follow" ${follow ? raw(' checked') : ''} /><label for="follow"
        >Follow</label
      >
    </div>
    <button class="go">Trace</button>
  </form>`
}

function result(trace: Trace, form: TraceForm): Html {
  return html`${trace.notice === null ? '' : html`<p class="muted">${foreign(trace.notice)}</p>`}
    ${conclusion(trace, form)} ${comparison(trace)}
    <div class="columns">
      <div>${facts(trace)}</div>
      <div>${gaps(trace)}${trace.revision === null ? '' : questions(trace)}</div>
    </div>`
}

/** How a verdict looks: a fault, as it should be, or on its way. */
function toneOf({ symptom, state }: Trace['verdict']): Tone {
  if (symptom !== null || state === 'intent-dead') return 'bad'
  return state === 'projection-current' ? 'good' : 'open'
}

/** True when waiting changes nothing any more. */
export function isFinal({ state, symptom, owner }: Trace['verdict']): boolean {
  return owner === null || (state === 'projection-current' && symptom !== 'public-read-old')
}

function conclusion({ verdict, signs, tracedAt }: Trace, { follow }: TraceForm): Html {
  const tone = toneOf(verdict)
  const checked = [
    ...(['source', 'intent', 'destination', 'consumer', 'projection', 'read'] as const).map((name) => [
      name,
      signs[name],
    ]),
    ['late', signs.late ? 'yes' : 'no'],
    ['applied twice', signs.twice],
  ] as const
  return html`<section class="card verdict is-${tone}" aria-labelledby="conclusion">
    <h2 id="conclusion">Conclusion</h2>
    <p class="state ${verdict.symptom === null ? tone : ''}">${printable(verdict.state)}</p>
    ${pairs([
      [
        'Symptom',
        verdict.symptomText === null
          ? 'none'
          : html`<code>${verdict.symptom}</code>
              <strong class="bad">${capital(verdict.symptomText)}.</strong>`,
      ],
      ['Cause', html`<code>${verdict.cause}</code> ${verdict.causeText}`],
      ['Next', verdict.action],
      ['Owner', ownerOf(verdict)],
      ['Safe command', commandOf(verdict)],
      [
        'Checked',
        html`<ul class="chips">
          ${checked.map(([name, word]) => html`<li><span class="muted">${name}</span> ${word}</li>`)}
        </ul>`,
      ],
      ['Looked up', html`${utc(tracedAt)}${following(verdict, follow)}`],
    ])}
  </section>`
}

function commandOf({ command }: Trace['verdict']): Html {
  const safe = printable(command)
  return html`<pre title="One click selects it all"><code>${safe}</code></pre>
    ${safe === command ? '' : html`<div class="muted">Not to be copied: the invisible characters in it are written as escapes.</div>`}`
}

function ownerOf({ owner, team }: Trace['verdict']): Html | string {
  if (owner === null) return 'nobody has to act'
  return team === null ? owner : html`${owner} (${foreign(team)})`
}

function following(verdict: Trace['verdict'], follow: boolean): string {
  if (!follow) return ''
  return isFinal(verdict) ? '; final, so no longer followed' : '; again every 3 s'
}

function facts(trace: Trace): Html {
  const steps = stepsOf(trace).filter(({ known }) => known)
  return html`<section class="card" aria-labelledby="facts">
    <h2 id="facts">Facts</h2>
    ${steps.length === 0 ? html`<p class="muted">Nothing could be looked up.</p>` : ''}
    <ol class="timeline">
      ${steps.map(
        ({ who, source, at, text, tone }) =>
          html`<li>
            ${mark(tone)}
            <h3>${brief(who)}</h3>
            <div class="${tone === 'bad' ? 'bad' : ''}">${foreign(text)}</div>
            <div class="muted">
              ${at === null ? '' : moment(at, trace.tracedAt)}${source === who ? '' : html`${at === null ? '' : ' · '}${foreign(source)}`}
            </div>
          </li>`,
      )}
    </ol>
  </section>`
}

function gaps({ gaps: missing }: Trace): Html {
  return html`<section class="card" aria-labelledby="gaps">
    <h2 id="gaps">Gaps</h2>
    ${
      missing.length === 0
        ? html`<p class="muted">None: every fact was found.</p>`
        : html`<ul class="gaps">
            ${missing.map(
              ({ name, owner, reason }) =>
                html`<li>
                  <strong>${brief(name)}</strong>
                  <div>${foreign(reason)}</div>
                  <div class="muted">to be found by: ${owner}</div>
                </li>`,
            )}
          </ul>`
    }
  </section>`
}

function questions({ answers }: Trace): Html {
  return html`<section class="card" aria-labelledby="questions">
    <h2 id="questions">Five questions</h2>
    <dl>
      ${questionsOf(answers).map(
        ([question, answer]) =>
          html`<dt class="muted">${capital(question)}?</dt>
            <dd class="answer">
              ${answer === null ? html`<span class="open">open</span>` : foreign(answer)}
            </dd>`,
      )}
    </dl>
  </section>`
}
