/** The figures of the last line. */
export interface Summary {
  written: number
  delivered: number
  duplicates: number
  out_of_order: number
  lost: number
}

/** What was promised, one line each, and whether it is so. */
export interface Findings {
  check(holds: boolean, text: string): void
  readonly ok: boolean
}

export function createFindings(print: (line: string) => void): Findings {
  let ok = true
  return {
    check(holds, text) {
      ok &&= holds
      print(`  ${holds ? 'yes' : 'NO '}  ${text}`)
    },
    get ok() {
      return ok
    },
  }
}
