/** Lines that stay and, on a terminal, one line below them that is written over and over. */
export interface Progress {
  print(line: string): void
  /** The live line. Without a terminal it is printed when `everyMs` have passed since the last one. */
  show(text: string): void
  /** Takes the live line away. */
  end(): void
}

export function createProgress({ stream = process.stdout, everyMs = 5000 } = {}): Progress {
  let live = ''
  let shownAt = -Infinity
  const erase = () => stream.isTTY && stream.write('\r\u001b[K')
  const draw = () => stream.isTTY && stream.write(live.slice(0, (stream.columns || 80) - 1))

  return {
    print(line) {
      erase()
      stream.write(`${line}\n`)
      draw()
    },
    show(text) {
      if (stream.isTTY) {
        live = text
        erase()
        draw()
      } else if (performance.now() - shownAt >= everyMs) {
        shownAt = performance.now()
        stream.write(`${text}\n`)
      }
    },
    end() {
      erase()
      live = ''
    },
  }
}

/** How far things are. */
export function describe({
  written,
  delivered,
  duplicates,
}: {
  written: number
  delivered: number
  duplicates: number
}): string {
  const waiting = Math.max(0, written - delivered)
  return `written ${number(written)} · delivered ${number(delivered)} · waiting ${number(waiting)} · duplicates ${number(duplicates)}`
}

export function number(value: number): string {
  return value.toLocaleString('en-US')
}
