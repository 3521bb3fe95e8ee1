import { type Browser, type Page, chromium } from 'playwright-core'
import { atEndOfFile } from './cleanups.ts'
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
}

/** A browser of this test file's own, without a window and without a way out of this machine. Guard with `describeWith('chromium', …)`. */
export async function startBrowser(): Promise<(options?: PageOptions) => Promise<TestPage>> {
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
    return Object.assign(page, { complaints })
  }
}
