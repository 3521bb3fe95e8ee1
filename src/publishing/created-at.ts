import { undeliverable } from './publisher.ts'

let lastSecond = Number.NaN
let lastText = ''

/**
 * Microseconds since 1970 as Debezium prints a time (ISO 8601, UTC, trailing zeros of the fraction trimmed):
 * `2025-03-04T05:06:07.08Z`, `2025-03-04T05:06:07Z`. A batch mostly holds events of few seconds, so the text of
 * the last one is kept.
 *
 * @throws EVENT_UNDELIVERABLE for what has no such form, such as `infinity`
 */
export function createdAtText(micros: string): string {
  const value = Number(micros)
  // Beyond the year 2255 a number no longer holds every microsecond.
  if (!Number.isSafeInteger(value)) return distantText(micros)
  const second = Math.floor(value / 1_000_000)
  return text(second, value - second * 1_000_000, micros)
}

function distantText(micros: string): string {
  if (!/^-?\d+$/.test(micros)) throw noIsoForm(micros)
  const value = BigInt(micros)
  const fraction = ((value % 1_000_000n) + 1_000_000n) % 1_000_000n
  return text(Number((value - fraction) / 1_000_000n), Number(fraction), micros)
}

function text(second: number, fraction: number, micros: string): string {
  if (second !== lastSecond) {
    const date = new Date(second * 1000)
    if (Number.isNaN(date.getTime())) throw noIsoForm(micros)
    lastText = date.toISOString().slice(0, -5)
    lastSecond = second
  }
  if (fraction === 0) return `${lastText}Z`
  const digits = String(fraction).padStart(6, '0')
  let end = digits.length
  while (digits.charCodeAt(end - 1) === 48) end--
  return `${lastText}.${digits.slice(0, end)}Z`
}

function noIsoForm(micros: string): Error {
  return undeliverable(`the event's created_at has no ISO 8601 form (${micros.slice(0, 40)} microseconds)`)
}
