import { html } from 'hono/html'
import { layout } from './layout.ts'

const answers = [
  ['/livez', 'fails only when a restart would help'],
  ['/readyz', 'not ready when due work exists and nothing moves, with the reason'],
  ['/metrics', 'for Prometheus'],
  ['/api/v1/status', 'counts, relays, destinations'],
  ['/api/v1/relays', 'live relays and their buckets'],
  ['/api/v1/events', 'events in order'],
  ['/api/v1/dead-letters', 'what could not be delivered, and why'],
  ['/api/v1/audit', 'all publications, looked at now'],
  ['/api/v1/decisions', 'who decided what, and why'],
] as const

/** What `/` shows: what is here. No data, so it needs no token. */
export const startPage = layout({
  ...{ title: 'Relay', path: '/' },
  body: html`<h1>Waybill relay</h1>
    <p>This process delivers the events of a transactional outbox. For people:</p>
    <ul class="plain">
      <li><a href="/trace">Trace</a>: where one revision of one aggregate is, and what to do about it</li>
      <li>
        <a href="/publications">Publications</a>: counts by state and symptom, with the first keys of each
      </li>
    </ul>
    <p>For programs:</p>
    <ul class="plain">
      ${answers.map(
        ([path, text]) =>
          html`<li>
            <a href="${path}"><code>${path}</code></a
            >: ${text}
          </li>`,
      )}
    </ul>
    <p>
      Where a token is configured, the pages ask for it once, and what is for programs, but the first two,
      needs the header <code>Authorization: Bearer …</code>.
    </p>`,
})
