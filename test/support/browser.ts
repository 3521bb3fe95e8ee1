import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, type Page, chromium } from 'playwright-core'
import { atEndOfFile } from './cleanups.ts'
import { projectFolder } from './processes.ts'
import { findChromium } from './programs.ts'

export interface PageOptions {
  /** Of the window, in pixels. Default: 1280. */
  width?: number
  /** Default: false. */
  dark?: boolean
}

export interface TestPage extends Page {
  /** What the browser complained of: violations of the Content-Security-Policy, errors of scripts. */
  readonly complaints: readonly string[]
  /** What a reader would complain of, with everything unfolded: in order when nothing is listed and nothing scrolls sideways. */
  flaws(): Promise<Flaws>
  /** Keeps a screenshot of the whole page as `test/output/pages/<name>.png`. */
  picture(name: string): Promise<unknown>
}

export interface Flaws {
  /** Text with less contrast than 4.5 to what is behind it. */
  readonly pale: readonly string[]
  /** What is wider than the window. */
  readonly wide: readonly string[]
  readonly scrolls: boolean
}

export const noFlaws: Flaws = { pale: [], wide: [], scrolls: false }

const pictures = join(projectFolder, 'test/output/pages')

// As text, for it runs in the page.
const findFlaws = `(() => {
  document.querySelectorAll('details').forEach((at) => { at.open = true })
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number)
  const light = (color) => {
    const [r, g, b] = numbers(color).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const backOf = (at) => {
    for (; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor
      if (numbers(color)[3] !== 0) return color
    }
    return canvas
  }
  const probe = document.body.appendChild(document.createElement('i'))
  probe.style.backgroundColor = 'Canvas'
  const canvas = getComputedStyle(probe).backgroundColor
  probe.remove()
  const pale = []
  for (const at of document.querySelectorAll('body *:not(script)')) {
    if (![...at.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '')) continue
    const [a, b] = [light(getComputedStyle(at).color), light(backOf(at))].sort((x, y) => y - x)
    if ((a + 0.05) / (b + 0.05) < 4.5) pale.push(at.outerHTML.slice(0, 100))
  }
  const wide = [...document.querySelectorAll('body *')].filter((at) => at.getBoundingClientRect().right > innerWidth + 1)
  return {
    pale,
    wide: wide.map((at) => at.outerHTML.slice(0, 100)),
    scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  }
})()`

/** A browser of this test file's own, without a window and without a way out of this machine. Guard with `describeWith('chromium', …)`. */
export async function startBrowser(): Promise<(options?: PageOptions) => Promise<TestPage>> {
  mkdirSync(pictures, { recursive: true })
  const browser: Browser = await chromium.launch({
    executablePath: findChromium()!,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    ],
  })
  atEndOfFile(() => browser.close())
  return async ({ width = 1280, dark = false } = {}) => {
    const page = await browser.newPage({
      viewport: { width, height: 900 },
      colorScheme: dark ? 'dark' : 'light',
    })
    const complaints: string[] = []
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(error.message))
    return Object.assign(page, {
      complaints,
      flaws: () => page.evaluate<Flaws>(findFlaws),
      picture: (name: string) => page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true }),
    })
  }
}
