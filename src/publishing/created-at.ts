import { undeliverable } from './publisher.ts'

let lastSecond = ''
let lastText = ''

/** Digits of the microseconds since 1970 between 2001 and 2286. */
const usualLength = 16
const fractionDigits = 6

/**
 * Microseconds since 1970 as Debezium prints a time (ISO 8601, UTC, trailing zeros of the fraction trimmed):
 * `2025-03-04T05:06:07.08Z`, `2025-03-04T05:06:07Z`. A batch mostly holds events of few seconds, so the text of
 * the last one is kept.
 *
 * @throws EVENT_UNDELIVERABLE for what has no such form, such as `infinity`
 */
export function createdAtText(micros: string): string {
  if (micros.length !== usualLength || micros.startsWith('-')) return distantText(micros)
  const second = micros.slice(0, -fractionDigits)
  if (second !== lastSecond) {
    lastText = secondText(Number(second), micros)
    lastSecond = second
  }
  return withFraction(lastText, micros.slice(-fractionDigits))
}

function distantText(micros: string): string {
  if (!/^-?\d+$/.test(micros)) throw noIsoForm(micros)
  const value = BigInt(micros)
  const fraction = ((value % 1_000_000n) + 1_000_000n) % 1_000_000n
  const second = Number((value - fraction) / 1_000_000n)
  return withFraction(secondText(second, micros), String(fraction).padStart(fractionDigits, '0'))
}

function secondText(second: number, micros: string): string {
  const date = new Date(second * 1000)
  if (Number.isNaN(date.getTime())) throw noIsoForm(micros)
  return date.toISOString().slice(0, -5)
}

function withFraction(text: string, digits: string): string {
  let end = fractionDigits
  while (end > 0 && digits.charCodeAt(end - 1) === 48) end--
  if (end === 0) return `${text}Z`
  // The short one first: what is made of two short texts is copied, not linked.
  const fraction = `.${digits.slice(0, end)}Z`
  return text + fraction
}

function noIsoForm(micros: string): Error {
  return undeliverable(`the event's created_at has no ISO 8601 form (${micros.slice(0, 40)} microseconds)`)
}
