import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { AdminAddress } from '../../src/admin/server.ts'
import { plant } from '../operations/plant.ts'
import { testSchema } from '../support/target.ts'
import { bearer, closed, database, secret, send, start, telemetry } from './admin-bench.ts'

const note = {
  source: { table: 'public.notes', id: 'id', revision: 'revision', keeps: 'latest' },
  intent: { eventType: 'note.published', payload: `jsonb_build_object('id', id)` },
  ...{
    pendingLimitSeconds: 30,
    owners: { service: '<i>editors</i>' },
    projections: [],
    consumers: [],
    reads: [],
  },
} as const
const hostile = `<script>alert(1)</script>"'&\u202e`
let server: AdminAddress

beforeAll(async () => {
  await database.query(
    'CREATE TABLE public.notes (id text PRIMARY KEY, revision integer NOT NULL, body text)',
  )
  await database.query(`INSERT INTO public.notes VALUES ('n-42', 7, 'text'), ($1, 1, 'text')`, [hostile])
  server = await start({ publications: { note, order: note } })
})

const get = (path: string) => send(server, path)
const pathOf = (id: string, more = '') =>
  `/trace?${new URLSearchParams({ type: 'note', id }).toString()}${more}`

describe('the trace page', () => {
  it('is a form until it is told what to trace', async () => {
    for (const path of ['/trace', '/trace?type=&id=&revision=']) {
      const page = await get(path)
      expect(page.status).toBe(200)
      expect(page.headers['content-type']).toMatch(/^text\/html/)
      expect(page.text).toMatch(/<option value="note"><\/option>\s*<option value="order"><\/option>/)
      expect(page.text).not.toContain('id="conclusion"')
    }
  })

  it('shows state, symptom, cause, owner, command, facts, gaps and the five questions', async () => {
    const { status, text } = await get('/trace?type=note&id=n-42&revision=007')
    expect(status).toBe(200)
    for (const part of [
      'note-only',
      '<code>intent-missing</code>',
      'The canonical revision is there, the intent is not.',
      '<code>no-intent</code> The revision was saved without',
      'service (<bdi>&lt;i&gt;editors&lt;/i&gt;</bdi>)',
      'waybill intent create note n-42 7 --reason &quot;…&quot;',
      'table public.notes',
      'Which key repeats it?',
      '<strong><bdi>public read</bdi></strong>',
    ])
      expect(text).toContain(part)
  })

  it('never lets text of others be markup, or turn the text around it', async () => {
    for (const path of [
      pathOf(hostile),
      pathOf(`nobody ${hostile}`),
      `/trace/${encodeURIComponent(hostile)}`,
    ]) {
      const { text } = await get(path)
      expect(text).toContain('&lt;script&gt;')
      expect(text.replace(/value="[^"]*"/g, '')).not.toMatch(/<script|\u202e/)
    }
    expect((await get(pathOf(hostile))).text).toContain('\\u202e')
  })

  it.each([
    ['/trace?type=note&id=n-42&revision=1e3', 400, 'Expected a revision to be an integer'],
    ['/trace?type=note&id=', 400, 'Expected aggregate id to be text'],
    [pathOf('n-42', '&id=n-43'), 400, 'Id is given more than once.'],
    [pathOf('n-42', '&revison=7'), 400, 'did you mean'],
    [pathOf('nobody'), 404, 'No revision of note &quot;nobody&quot; is known'],
    [pathOf('x'.repeat(10_000)), 400, 'Expected aggregate id to be text of 1 to 255 characters'],
    ['/trace/n-42', 400, 'Expected an event id to be a UUID'],
    ['/trace/0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10', 404, 'No event has the id'],
    ['/publications?x=1', 400, 'Unknown query parameter'],
  ])('answers %s with %i and one sentence', async (path, status, sentence) => {
    const page = await get(path)
    expect(page.status).toBe(status)
    expect(page.headers['content-type']).toMatch(/^text\/html/)
    expect(page.text.match(/role="alert"/g)).toHaveLength(1)
    expect(page.text).toContain(sentence)
  })

  it('is where an event leads to', async () => {
    const [row] = await plant(database, { aggregate: ['note', 'a b'], revision: 3 })
    expect(await get(`/trace/${row!.id}`)).toMatchObject({
      status: 302,
      headers: { location: '/trace?type=note&id=a+b&revision=3' },
    })
  })

  it('shows the part of the chain that an event without a revision has', async () => {
    const [row] = await plant(database, { aggregate: ['bill', 'b-1'], type: 'bill.sent' })
    for (const path of [`/trace/${row!.id}`, '/trace?type=bill&id=b-1']) {
      const { status, text } = await get(path)
      expect(status).toBe(200)
      for (const part of [
        'event without a revision</h1>',
        'has no revision and no publication &quot;bill&quot; is configured',
        'intent-pending',
        `bill.sent, pending, event ${row!.id}`,
        `waybill trace ${row!.id}`,
      ])
        expect(text).toContain(part)
      expect(text).not.toContain('Five questions')
    }
    expect((await get('/trace?type=bill&id=b-1&follow')).headers['refresh']).toBe('3')
  })

  it('reloads itself while it is followed and something may still happen', async () => {
    expect((await get(pathOf('n-42', '&follow'))).headers['refresh']).toBe('3')
    expect((await get(pathOf('n-42'))).headers).not.toHaveProperty('refresh')
    expect((await get(pathOf('nobody', '&follow'))).headers).not.toHaveProperty('refresh')
    // Revision 6 was overtaken by 7: nobody has to act any more.
    expect((await get(pathOf('n-42', '&revision=6&follow'))).headers).not.toHaveProperty('refresh')
  })

  it('says that the database is away, with what is left to tell', async () => {
    const away = await start({
      database: { databaseUrl: 'postgres://127.0.0.1:1/none', schema: testSchema },
      publications: { note },
    })
    for (const path of [pathOf('n-42', '&revision=7&follow'), pathOf('n-42', '&follow'), '/publications']) {
      const page = await send(away, path)
      expect([page.status, page.text.match(/role="alert"/g)?.length]).toEqual([503, 1])
      expect(page.text).toContain('127.0.0.1:1/none')
      if (path.startsWith('/trace')) expect(page.headers['refresh']).toBe('3')
    }
    expect((await send(away, pathOf('n-42', '&revision=7'))).text).toContain('id="gaps"')
  })

  it('tells the log, and not the reader, what went wrong inside', async () => {
    const failed = new Promise((resolve) => telemetry.on('admin.failed', resolve))
    await database.query('ALTER TABLE "waybill".publication_heads RENAME COLUMN revision TO elsewhere')
    try {
      const page = await get(pathOf('n-42'))
      expect(page.status).toBe(500)
      expect(page.text).toContain('the log of the relay has more')
      expect(page.text).not.toContain('elsewhere')
      expect(await failed).toMatchObject({ path: '/trace' })
    } finally {
      await database.query('ALTER TABLE "waybill".publication_heads RENAME COLUMN elsewhere TO revision')
    }
  })
})

describe('the page of publications', () => {
  const store = (result: unknown) =>
    database.query(
      `UPDATE "waybill".outbox_tasks SET result = $1, finished_at = clock_timestamp() - interval '2 hours' WHERE name = 'audit'`,
      [result === null ? null : JSON.stringify(result)],
    )

  it('says so, and what to do, when there is no publication or nothing was audited', async () => {
    expect((await send(await start(), '/publications')).text).toContain('No publication is configured')
    await store(null)
    expect((await get('/publications')).text).toContain('No relay has audited the publications yet')
  })

  it('shows the last audit with its age, and leads from each first key to its trace', async () => {
    const key = {
      id: `n/1 ${hostile}`,
      revision: '4',
      state: 'note-only',
      cause: 'no-intent',
      owner: 'service',
    }
    await store({
      publications: [
        {
          ...{ publication: 'note', checked: 1_234_567, complete: false, tookMs: 900 },
          states: { 'note-only': 12, 'projection-current': 1_234_555 },
          symptoms: { 'intent-missing': { count: 12, first: [key] } },
          gaps: [{ name: 'consumer public-list', reason: '<b>away</b>' }],
        },
      ],
      failures: [{ publication: 'order', reason: 'no such table' }],
      durationMs: 1_000,
    })
    const { status, text } = await get('/publications')
    expect(status).toBe(200)
    const plain = text.replaceAll(/\s+/g, ' ')
    for (const part of [
      'Audited 2 h',
      '1,234,567 revisions, not all of them',
      '1,234,555',
      '<code>intent-missing</code> <span class="bad">The canonical revision is there, the intent is not</span>',
      '<code>no-intent</code> The revision was saved without',
      'and 11 more',
      '&lt;b&gt;away&lt;/b&gt;',
      'Could not be audited: <bdi>no such table</bdi>',
    ])
      expect(plain).toContain(part)
    expect(text).not.toContain('<script')
    const [, href] = /href="(\/trace\?[^"]+)"/.exec(text)!
    expect(Object.fromEntries(new URL(href!.replaceAll('&amp;', '&'), server.url).searchParams)).toEqual({
      ...{ type: 'note', id: key.id, revision: '4' },
    })
  })
})

describe('every page', () => {
  it('allows no script, no frame and nothing from elsewhere', async () => {
    for (const path of ['/', '/login', '/trace', '/publications', pathOf('n-42'), pathOf('nobody')]) {
      const page = await send(path === '/login' ? closed : server, path)
      expect(page.headers).toMatchObject({
        'content-security-policy': expect.stringMatching(
          /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
        ),
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      })
      expect(page.text).not.toMatch(/<script|<link|<img|\son\w+=|\sstyle=|https?:/)
    }
  })

  it('does not answer to a foreign name without a token', async () => {
    for (const path of ['/trace', '/publications', '/login'])
      expect((await send(server, path, { headers: { host: 'evil.example' } })).status).toBe(403)
  })
})

const form = (body: Record<string, string>) => new URLSearchParams(body).toString()
const post = (path: string, body: string, headers: Record<string, string> = {}, address = closed) =>
  send(address, path, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  })
const login = async (headers: Record<string, string> = {}, address = closed) => {
  const answer = await post('/login', form({ token: secret, next: '/publications' }), headers, address)
  const [header] = answer.headers['set-cookie'] as string[]
  return { answer, header: header!, cookie: header!.split(';')[0]! }
}

describe('logging in', () => {
  it('is asked of whoever opens a page, and leads back there', async () => {
    for (const path of ['/trace?type=note&id=n%2042', '/trace/x', '/publications']) {
      const { status, headers } = await send(closed, path)
      expect([status, headers['location']]).toEqual([302, `/login?${form({ next: path })}`])
    }
    const page = await send(closed, `/login?${form({ next: '/trace?type=note&id=n%2042' })}`)
    expect(page.text).toContain('name="next" value="/trace?type=note&amp;id=n%2042"')
    expect(page.text).not.toContain(secret)
    const after = await post('/login', form({ token: secret, next: '/trace?type=note&id=n%2042' }))
    expect([after.status, after.headers['location']]).toEqual([303, '/trace?type=note&id=n%2042'])
  })

  it('gives a cookie that holds no token and that no script and no other site can use', async () => {
    const { header } = await login()
    expect(header).toMatch(/^waybill_\w+=\d+\.[^;]+; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/)
    expect(decodeURIComponent(header)).not.toContain(secret)
    expect((await login({ 'x-forwarded-proto': 'https' })).header).toContain('; Secure')
  })

  it('opens the pages, and neither the API nor the metrics', async () => {
    const { cookie } = await login()
    for (const path of ['/publications', '/trace'])
      expect((await send(closed, path, { headers: { cookie } })).status).toBe(200)
    for (const path of ['/api/v1/status', '/api/v1/trace', '/metrics'])
      expect((await send(closed, path, { headers: { cookie } })).status).toBe(401)
    const act = { method: 'POST', headers: { cookie, 'x-waybill-action': '1' }, body: '{}' }
    expect((await send(closed, '/api/v1/dead-letters/retry', act)).status).toBe(401)
    expect((await send(closed, '/publications', { headers: bearer })).status).toBe(200)
  })

  it('takes no cookie that was altered, is of another process, or too old', async () => {
    const { cookie } = await login()
    const [name, value] = cookie.split('=') as [string, string]
    const [until, ...signature] = decodeURIComponent(value).split('.')
    const other = await start({ token: secret })
    const [othersName] = (await login({}, other)).cookie.split('=')
    const later = `${name}=${encodeURIComponent(`${Number(until) + 1}.${signature.join('.')}`)}`
    for (const [address, wrong] of [
      [closed, later],
      [closed, `${name}=${until}`],
      [closed, `${name}=${secret}`],
      [other, cookie],
      [other, `${othersName}=${value}`],
    ] as const)
      expect((await send(address, '/publications', { headers: { cookie: wrong } })).status).toBe(302)
    const open = async () => (await send(closed, '/publications', { headers: { cookie } })).status
    vi.useFakeTimers({ toFake: ['Date'], now: Number(until) - 60_000 })
    try {
      expect(await open()).toBe(200)
      vi.setSystemTime(Number(until))
      expect(await open()).toBe(302)
    } finally {
      vi.useRealTimers()
    }
  })

  it('refuses a wrong token with one sentence, and sets no cookie', async () => {
    for (const body of [form({ token: 'wrong' }), form({ token: '' }), form({ token: `${secret}x` }), '']) {
      const answer = await post('/login', body)
      expect([answer.status, answer.headers['set-cookie']]).toEqual([401, undefined])
      expect(answer.text).toContain('This is not the token of this relay.')
      expect(answer.text).not.toContain(secret)
    }
    expect((await post('/login', form({ token: 'x'.repeat(20_000) }))).status).toBe(413)
  })

  it.each([
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/api/v1/status',
    '/trace\r\nx: y',
    '/tracex',
  ])('leads to none but our own pages: %j', async (next) => {
    expect((await post('/login', form({ token: secret, next }))).headers['location']).toBe('/publications')
  })

  it('and out is for forms of this server only', async () => {
    for (const site of ['cross-site', 'same-site'])
      for (const path of ['/login', '/logout'])
        expect((await post(path, form({ token: secret }), { 'sec-fetch-site': site })).status).toBe(403)
    const { cookie } = await login({ 'sec-fetch-site': 'same-origin' })
    const out = await post('/logout', '', { cookie, 'sec-fetch-site': 'same-origin' })
    expect([out.status, out.headers['location']]).toEqual([303, '/login'])
    expect(String(out.headers['set-cookie'])).toMatch(/^waybill_\w+=; Max-Age=0/)
  })

  it('is not needed without a token', async () => {
    expect((await get('/login')).headers['location']).toBe('/')
    expect((await get('/publications')).status).toBe(200)
  })
})
