import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'
import { projectFolder } from '../support/processes.ts'
import { anchorsOf, linksOf, readPage } from './markdown.ts'

// What Git knows, and what it would know after `git add .`.
const listing = spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '--', '*.md'], {
  cwd: projectFolder,
  encoding: 'utf8',
})
const pages = [...new Set(listing.stdout.split('\n'))].filter(
  (page) => page !== '' && existsSync(join(projectFolder, page)),
)

/** Why a link leads nowhere, or undefined when it does not. */
function problemOf(page: string, target: string, read = readPage): string | undefined {
  if (/^(https?|mailto):/.test(target)) return undefined
  const [path = '', anchor] = target.split('#', 2)
  if (path.startsWith('/')) return 'is absolute'
  const file = path === '' ? page : normalize(join(dirname(page), decodeURI(path)))
  if (file.startsWith('..')) return 'leaves the repository'
  if (path !== '' && !existsSync(join(projectFolder, file))) return 'leads to no file'
  if (anchor === undefined) return undefined
  if (path !== '' && (statSync(join(projectFolder, file)).isDirectory() || !file.endsWith('.md')))
    return 'has an anchor into something that has none'
  return anchorsOf(read(file)).has(decodeURIComponent(anchor)) ? undefined : 'leads to no heading'
}

describe('the pages', () => {
  it('are seen by these checks', () => {
    for (const page of [
      'README.md',
      'docs/README.md',
      'docs/adr/README.md',
      'examples/orders/README.md',
      'examples/notes/README.md',
    ])
      expect(pages).toContain(page)
    expect(linksOf(readPage('README.md')).length).toBeGreaterThan(20)
    expect(problemOf('README.md', 'docs/no-such-page.md')).toBe('leads to no file')
    expect(problemOf('docs/README.md', '../../elsewhere.md')).toBe('leaves the repository')
    expect(problemOf('docs/README.md', 'glossary.md#no-such-term')).toBe('leads to no heading')
    expect(problemOf('docs/README.md', '#guides')).toBeUndefined()
  })

  it.each(pages)('%s has only links that lead somewhere', (page) => {
    const broken = linksOf(readPage(page)).flatMap(({ text, target }) => {
      const problem = problemOf(page, target)
      return problem === undefined ? [] : [`[${text}](${target}) ${problem}`]
    })
    expect(broken).toEqual([])
  })

  it('below docs/ can all be reached from the map', () => {
    const reached = new Set<string>()
    const visit = (page: string): void => {
      if (reached.has(page)) return
      reached.add(page)
      for (const { target } of linksOf(readPage(page))) {
        const file = normalize(join(dirname(page), target.split('#')[0]!))
        if (pages.includes(file)) visit(file)
      }
    }
    visit('docs/README.md')
    expect(pages.filter((page) => page.startsWith('docs/') && !reached.has(page))).toEqual([])
  })

  it('that sources and messages name are there', () => {
    const found = spawnSync(
      'git',
      ['grep', '-noE', 'docs/[a-z0-9/-]+\\.md', '--', 'src', 'examples', 'scripts'],
      {
        cwd: projectFolder,
        encoding: 'utf8',
      },
    )
    const named = found.stdout.split('\n').filter((line) => line !== '')
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter((line) => !existsSync(join(projectFolder, line.split(':').at(-1)!)))).toEqual([])
  })
})

describe('anchors', () => {
  it('are those of GitHub', () => {
    const page = [
      '# What `waybill` _does_, and why',
      '## `outbox_events` & co.',
      '## Same',
      '## Same',
      '## A [link](elsewhere.md)',
      '```sh',
      '# not a heading',
      '```',
      '### Größe: 3/4',
    ].join('\n')
    expect([...anchorsOf(page)]).toEqual([
      'what-waybill-does-and-why',
      'outbox_events--co',
      'same',
      'same-1',
      'a-link',
      'größe-34',
    ])
  })
})

describe('links', () => {
  it('are found in prose and not in code', () => {
    const page =
      '[a](b.md), ![i](c.png) `[x](y.md)` [`d`](e.md#f "title")\n\n```\n[no](no.md)\n```\n\n[g]: h.md\n'
    expect(linksOf(page).map(({ target }) => target)).toEqual(['b.md', 'c.png', 'e.md#f', 'h.md'])
  })
})
