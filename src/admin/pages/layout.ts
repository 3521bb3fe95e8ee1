import { createHash } from 'node:crypto'
import { html, raw } from 'hono/html'
import type { Tone } from '../../publications/timeline.ts'
import { duration, printable } from '../../wording.ts'
import { style } from './style.ts'

export type Html = ReturnType<typeof html>

/** No script, nothing from elsewhere, one style sheet; forms lead to this server only. */
export const contentSecurityPolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

export interface LayoutOptions {
  title: string
  /** Which link of the navigation leads here. */
  path: string
  /** True where somebody may be logged in. */
  canLogOut?: boolean
  body: Html
}

const places = [
  ['/', 'Relay'],
  ['/trace', 'Trace'],
  ['/publications', 'Publications'],
] as const

// Whole: the hash is of every character between the tags.
const styleElement = raw(`<style>${style}</style>`)

/** What every page has around it. */
export function layout({ title, path, canLogOut = false, body }: LayoutOptions): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${printable(title)} · Waybill</title>
        ${styleElement}
      </head>
      <body>
        <header>
          <strong>Waybill</strong>
          <nav aria-label="Pages">
            <ul>
              ${places.map(
                ([to, name]) =>
                  html`<li>
                    <a href="${to}" ${to === path ? raw(' aria-current="page"') : ''}>${name}</a>
                  </li>`,
              )}
            </ul>
          </nav>
          ${canLogOut ? html`<form method="post" action="/logout"><button>Log out</button></form>` : ''}
        </header>
        <main>${body}</main>
      </body>
    </html>`
}

const longest = 400
const shortened = 200

/** Text that others wrote: no markup, its direction kept to itself, and folded when it is long. */
export function foreign(text: string): Html {
  const characters = [...printable(text)]
  if (characters.length <= longest) return html`<bdi>${characters.join('')}</bdi>`
  return html`<details>
    <summary><bdi>${characters.slice(0, shortened).join('')}…</bdi></summary>
    <bdi>${characters.join('')}</bdi>
  </details>`
}

/** The same on one line, within a heading or a link: what is too long is cut. */
export function brief(text: string): Html {
  const characters = [...printable(text)]
  const told = characters.length <= longest ? characters : [...characters.slice(0, shortened), '…']
  return html`<bdi>${told.join('')}</bdi>`
}

/** With its first letter large. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** A moment in UTC. */
export function utc(at: string): Html {
  return html`<time datetime="${at}">${at.slice(0, 10)} ${at.slice(11, 23)} UTC</time>`
}

/** A moment in UTC, and how long ago it was. */
export function moment(at: string, now: string): Html {
  const seconds = (Date.parse(now) - Date.parse(at)) / 1000
  // Clocks of two machines differ by a little.
  const age =
    Math.abs(seconds) < 1 ? 'just now' : seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`
  return html`${utc(at)}<span class="age">, ${age}</span>`
}

const marks: Readonly<Record<Tone, readonly [sign: string, word: string]>> = {
  good: ['✓', 'as it should be'],
  open: ['○', 'not there yet'],
  bad: ['✗', 'fault'],
  quiet: ['•', 'note'],
}

/** A sign for those who see, a word for those who listen; never colour alone. */
export function mark(tone: Tone): Html {
  const [sign, word] = marks[tone]
  return html`<span class="mark ${tone}" role="img" aria-label="${word}">${sign}</span>`
}

/** An error as one sentence. */
export function errorCard(message: string): Html {
  const sentence = `${capital(message)}${/[.!?]$/.test(message) ? '' : '.'}`
  return html`<section class="card error" role="alert" aria-label="Error">${foreign(sentence)}</section>`
}

/** Terms and what is said of them; those without anything are left out. */
export function pairs(rows: readonly (readonly [term: string, text: Html | string | null])[]): Html {
  const told = rows.filter(([, text]) => text !== null)
  return html`<dl class="pairs">
    ${told.map(
      ([term, text]) =>
        html`<dt>${term}</dt>
          <dd>${text}</dd>`,
    )}
  </dl>`
}
