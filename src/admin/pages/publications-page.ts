import { html } from 'hono/html'
import type { AuditKey, AuditReport } from '../../publications/audit.ts'
import { causeTexts, symptomTexts } from '../../publications/explain.ts'
import type { StoredAudits } from '../../operations/stored-audit.ts'
import type { Symptom } from '../../publications/verdict.ts'
import { duration } from '../../wording.ts'
import { type Html, brief, capital, errorCard, foreign, layout } from './layout.ts'

export interface PublicationsPageOptions {
  /** Configured publications, by name. */
  names: readonly string[]
  /** What the relays found last; null: nothing yet. */
  audits?: StoredAudits | null
  error?: string
  canLogOut: boolean
}

/** The counts of each publication by state and symptom, as the relays found them last. */
export function publicationsPage({ names, audits, error, canLogOut }: PublicationsPageOptions): Html {
  return layout({
    ...{ title: 'Publications', path: '/publications', canLogOut },
    body: html`<h1>Publications</h1>
      ${error === undefined ? '' : errorCard(error)} ${audits === undefined ? '' : found(names, audits)}`,
  })
}

function found(names: readonly string[], audits: StoredAudits | null): Html {
  if (names.length === 0)
    return html`<p>
      No publication is configured here: describe one under <code>publications</code> of the configuration,
      and it is audited and shown on this page.
    </p>`
  if (audits === null)
    return html`<p>
      No relay has audited the publications yet. A running relay does so by itself within seconds of its
      start; <code>waybill audit</code> does it at once and prints what it finds.
    </p>`
  return html`<p class="muted">
      Audited ${duration(audits.ageSeconds)} ago, in ${duration(audits.durationMs / 1000)}. Public reads are
      not asked here: <code>waybill audit --reads</code> asks them.
    </p>
    ${names.map((name) => publication(name, audits))}`
}

function publication(name: string, { publications, failures }: StoredAudits): Html {
  const report = publications.find((one) => one.publication === name)
  const failure = failures.find((one) => one.publication === name)
  return html`<section class="card">
    <h2>${brief(name)}</h2>
    ${failure === undefined ? '' : html`<div class="bad">Could not be audited: ${foreign(failure.reason)}</div>`}
    ${report === undefined ? (failure === undefined ? html`<p>Not audited yet.</p>` : '') : reportOf(report)}
  </section>`
}

function reportOf({ publication: name, checked, complete, states, symptoms, gaps }: AuditReport): Html {
  const found = Object.entries(symptoms) as [Symptom, { count: number; first: readonly AuditKey[] }][]
  const missed = gaps.filter((gap) => gap.name !== 'public reads')
  return html`<table>
      <caption>
        ${number(checked)} ${checked === 1 ? 'revision' : 'revisions'}${complete ? '' : ', not all of them'}
      </caption>
      <thead>
        <tr>
          <th scope="col">State</th>
          <th scope="col" class="count">Revisions</th>
        </tr>
      </thead>
      <tbody>
        ${Object.entries(states)
          .toSorted(([, a], [, b]) => b - a)
          .map(
            ([state, count]) =>
              html`<tr>
                <td>${foreign(state)}</td>
                <td class="count">${number(count)}</td>
              </tr>`,
          )}
      </tbody>
    </table>
    ${found.length === 0 ? html`<p class="good">No symptom.</p>` : found.map(([symptom, told]) => symptomOf(name, symptom, told))}
    ${
      missed.length === 0
        ? ''
        : html`<h3 class="symptom">Not looked at</h3>
            <ul class="plain">
              ${missed.map(({ name: what, reason }) => html`<li>${foreign(what)}: ${foreign(reason)}</li>`)}
            </ul>`
    }`
}

function symptomOf(
  type: string,
  symptom: Symptom,
  { count, first }: { count: number; first: readonly AuditKey[] },
): Html {
  return html`<div class="symptom">
    <h3>
      <code>${symptom}</code> <span class="bad">${capital(symptomTexts[symptom])}</span>: ${number(count)}
    </h3>
    <ul class="plain">
      ${first.map(
        (key) =>
          html`<li>
            <a href="/trace?${query(type, key)}">${brief(key.id)}, revision ${key.revision}</a>
            <div class="muted">
              ${key.state}${key.owner === null ? '' : `, owner ${key.owner}`}:
              <code>${key.cause}</code> ${causeTexts[key.cause] ?? ''}
            </div>
          </li>`,
      )}
    </ul>
    ${count > first.length ? html`<p class="muted">and ${number(count - first.length)} more</p>` : ''}
  </div>`
}

const query = (type: string, { id, revision }: AuditKey) =>
  new URLSearchParams({ type, id, revision }).toString()
const number = (count: number) => count.toLocaleString('en')
