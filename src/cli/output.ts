import { styleText } from 'node:util'
import type { Writable } from 'node:stream'
import { printable } from '../wording.ts'
import { columnsOf, cut } from './text.ts'

export type Color = 'red' | 'green' | 'yellow' | 'cyan' | 'gray' | 'bold'

/** What a command writes to. */
export interface Terminal {
  readonly stdout: Writable & { isTTY?: boolean; columns?: number }
  readonly stderr: Writable & { isTTY?: boolean }
  readonly environment: Readonly<Record<string, string | undefined>>
}

export interface Column<Row> {
  title: string
  text: (row: Row) => string
  align?: 'right'
  /** Longer text is cut. Default: no limit. */
  limit?: number
  color?: (row: Row) => Color | undefined
}

/** Results on stdout, for people or as JSON; everything else on stderr. */
export interface Output {
  /** True with `--json`: then stdout holds machine-readable JSON and nothing else. */
  readonly json: boolean
  /** True once the reader of stdout is gone (`waybill list | head`): further lines go nowhere. */
  readonly closed: boolean
  /** A line for people; nothing with `--json`. */
  print(line?: string): void
  /** A table for people; nothing with `--json`. */
  table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): void
  /** The result for machines: one line with `--json`, nothing otherwise. */
  data(value: unknown): void
  /** Text as it is, whatever the mode. */
  raw(text: string): void
  /** A hint or warning on stderr; nothing with `--json`. */
  note(line: string): void
  paint(color: Color, text: string): string
  /** A progress bar on stderr, only on a terminal; `total` is asked for only there. Null: not known. */
  progress(label: string, total: () => Promise<number | null>): Promise<Progress>
  /** Resolves when everything is written. */
  flush(): Promise<void>
}

export interface Progress {
  update(done: number): void
  stop(): void
}

const noProgress: Progress = { update() {}, stop() {} }

export function createOutput(
  { stdout, stderr, environment }: Terminal,
  { json = false, color }: { json?: boolean; color: boolean },
): Output {
  const noColor = !color || Boolean(environment['NO_COLOR']) || environment['TERM'] === 'dumb'
  const colored = stdout.isTTY === true && !noColor
  let closed = false
  // Without a listener a reader that went away would end the process with a stack trace.
  stdout.on('error', () => (closed = true))
  stderr.on('error', () => undefined)

  const paint = (style: Color, text: string) =>
    colored ? styleText(style, text, { validateStream: false }) : text
  const write = (text: string) => {
    if (!closed) stdout.write(text)
  }

  return {
    json,
    get closed() {
      return closed
    },
    paint,
    print: (line = '') => {
      if (!json) write(`${line}\n`)
    },
    table(rows, columns) {
      if (json) return
      const cells = rows.map((row) =>
        columns.map(({ text, limit }) => cut(printable(text(row)), limit ?? Infinity)),
      )
      const widths = columns.map(({ title }, index) =>
        Math.max(title.length, ...cells.map((line) => columnsOf(line[index]!))),
      )
      const pad = (text: string, index: number) => {
        const space = ' '.repeat(Math.max(0, widths[index]! - columnsOf(text)))
        if (columns[index]!.align === 'right') return space + text
        return index === columns.length - 1 ? text : text + space
      }
      write(`${paint('bold', columns.map(({ title }, index) => pad(title, index)).join('  '))}\n`)
      for (const [number, line] of cells.entries()) {
        const painted = line.map((text, index) => {
          const style = columns[index]!.color?.(rows[number]!)
          return style === undefined ? pad(text, index) : paint(style, pad(text, index))
        })
        write(`${painted.join('  ')}\n`)
      }
    },
    data: (value) => {
      if (json) write(`${JSON.stringify(value)}\n`)
    },
    raw: write,
    note: (line) => {
      if (!json) stderr.write(`${line}\n`)
    },
    async progress(label, total) {
      if (json || stderr.isTTY !== true || environment['TERM'] === 'dumb') return noProgress
      return createBar(label, await total(), stderr)
    },
    flush: () =>
      new Promise((resolve) => {
        if (closed) resolve()
        else stdout.write('', () => resolve())
      }),
  }
}

async function createBar(label: string, total: number | null, stream: Writable): Promise<Progress> {
  const { default: progress } = await import('cli-progress')
  const format = total === null ? `${label} {value}` : `${label} {bar} {value}/{total} {eta_formatted}`
  const options = { format, stream: stream as NodeJS.WritableStream, hideCursor: true, clearOnComplete: true }
  const bar = new progress.SingleBar(options, progress.Presets.shades_classic)
  bar.start(total ?? 0, 0)
  return { update: (done) => bar.update(done), stop: () => bar.stop() }
}
