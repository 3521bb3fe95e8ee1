import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectFolder } from '../support/processes.ts'

/** A fenced block of a page. */
export interface Block {
  readonly language: string
  readonly code: string
  /** From `<!-- file: name -->` above the block: the file that a reader is told to save it as. */
  readonly file: string | undefined
}

export interface Link {
  readonly text: string
  readonly target: string
}

export function readPage(path: string): string {
  return readFileSync(join(projectFolder, path), 'utf8')
}

export function blocksOf(page: string): Block[] {
  const pattern = /(?:<!-- file: (\S+) -->\n\n)?^```(\w*)\n(.*?)^```$/gms
  return [...page.matchAll(pattern)].map(([, file, language, code]) => ({
    language: language!,
    code: code!,
    file,
  }))
}

/** The page without its fenced blocks and its code spans: what looks like a link there is none. */
function proseOf(page: string): string {
  return page.replaceAll(/^(`{3,}).*?^\1$/gms, '')
}

/** Links of the forms `[text](target)`, `![text](target)` and `[name]: target`. */
export function linksOf(page: string): Link[] {
  const prose = proseOf(page)
  const inline = [...prose.matchAll(/\[((?:[^\][]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]+)>?[^)]*\)/g)]
  const named = [...prose.matchAll(/^\[([^\]]+)\]:\s*<?(\S+?)>?\s*$/gm)]
  // A link inside a code span is text.
  const spans = new Set([...prose.matchAll(/`[^`\n]*`/g)].map(([span]) => span))
  return [...inline, ...named]
    .filter(([whole]) => ![...spans].some((span) => span.includes(whole)))
    .map(([, text, target]) => ({ text: text!, target: target! }))
}

/** Headings in order, without their marks. */
export function headingsOf(page: string): string[] {
  return [...proseOf(page).matchAll(/^#{1,6} +(.*?) *#*$/gm)].map(([, text]) => text!)
}

/** The anchors that GitHub gives the headings of a page, and those that it states itself. */
export function anchorsOf(page: string): Set<string> {
  const seen = new Map<string, number>()
  const anchors = new Set<string>()
  for (const heading of headingsOf(page)) {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replaceAll(/[*`]|<[^>]*>/g, '')
      .replaceAll(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '')
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(slug) ?? 0
    seen.set(slug, times + 1)
    anchors.add(times === 0 ? slug : `${slug}-${times}`)
  }
  for (const [, id] of page.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id!)
  return anchors
}

/** The cells of the first table below a heading, a row each, without the head. */
export function tableBelow(page: string, heading: string): string[][] {
  const start = page.split('\n').findIndex((line) => line.replace(/^#+ /, '') === heading)
  const lines = page.split('\n').slice(start + 1)
  const first = lines.findIndex((line) => line.startsWith('|'))
  const rows: string[][] = []
  for (const line of lines.slice(first + 2)) {
    if (!line.startsWith('|')) break
    rows.push(
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    )
  }
  return rows
}
