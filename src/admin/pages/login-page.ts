import { html } from 'hono/html'
import { type Html, errorCard, layout } from './layout.ts'

/** One field for the token. `next` is the page that was asked for. */
export function loginPage({ next, error }: { next: string; error?: string }): Html {
  return layout({
    ...{ title: 'Log in', path: '/login' },
    body: html`<h1>Log in</h1>
      ${error === undefined ? '' : errorCard(error)}
      <form class="ask" method="post" action="/login">
        <input type="hidden" name="next" value="${next}" />
        <div class="wide">
          <label for="token">Token of this relay (<code>admin.token</code>)</label>
          <input id="token" name="token" type="password" required autofocus autocomplete="current-password" />
        </div>
        <button class="go">Log in</button>
      </form>
      <p class="muted">
        A link from another site arrives here although you are logged in:
        <a href="${next}">go on to the page</a>.
      </p>`,
  })
}
