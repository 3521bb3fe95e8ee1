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
  // Exact up to the year 2255; later times, which nobody has, are off by a few microseconds.
  const value = Number(micros)
  const second = Math.floor(value / 1_000_000)
  if (second !== lastSecond) {
    lastText = secondText(second, micros)
    lastSecond = second
  }
  const fraction = value - second * 1_000_000
  if (fraction === 0) return `${lastText}Z`
  let digits = String(fraction).padStart(6, '0')
  let end = digits.length
  while (digits.charCodeAt(end - 1) === 48) end--
  if (end < digits.length) digits = digits.slice(0, end)
  return `${lastText}.${digits}Z`
}

function secondText(second: number, micros: string): string {
  const date = new Date(second * 1000)
  if (Number.isNaN(date.getTime())) {
    throw undeliverable(`the event's created_at has no ISO 8601 form (${micros.slice(0, 40)} microseconds)`)
  }
  return date.toISOString().slice(0, -5)
}
