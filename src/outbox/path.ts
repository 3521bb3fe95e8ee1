import { WaybillError } from '../errors.ts'

/** Where a value stands inside an event: `payload.lines[2]["unit price"]`. */
export function formatPath(root: string, keys: readonly PropertyKey[]): string {
  return keys.reduce<string>((path, key) => {
    if (typeof key === 'number') return `${path}[${key}]`
    const name = String(key)
    // JSON.stringify shows control characters and lone surrogates as escapes.
    return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name)
      ? `${path}.${name}`
      : `${path}[${JSON.stringify(shorten(name))}]`
  }, root)
}

function shorten(name: string): string {
  return name.length > 60 ? `${name.slice(0, 59)}…` : name
}

/** A value of an event that cannot be stored or delivered. `problem` says what is wrong and what to do. */
export function eventInvalid(path: string, problem: string): WaybillError {
  return new WaybillError('EVENT_INVALID', `${path} ${problem}`, { details: { path } })
}
