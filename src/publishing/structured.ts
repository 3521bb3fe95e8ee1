/** A structured CloudEvent: its attributes, and the text of its data as it stands in the body. */
export interface StructuredParts {
  readonly attributes: Readonly<Record<string, unknown>>
  readonly data: string
}

const dataMember = ',"data":'

/** Undefined when the body is no JSON object. */
export function splitStructured(body: string): StructuredParts | undefined {
  return splitOurs(body) ?? splitForeign(body)
}

/**
 * Our own form has flat attributes and ends with the data, so the payload can be cut out untouched: a quote inside
 * of a text is escaped, so the first such member is the one of the envelope.
 */
function splitOurs(body: string): StructuredParts | undefined {
  const at = body.indexOf(dataMember)
  if (at < 0 || !body.startsWith('{') || !body.endsWith('}')) return undefined
  const attributes = parseObject(`${body.slice(0, at)}}`)
  const data = body.slice(at + dataMember.length, -1)
  return attributes === undefined || !isJson(data) ? undefined : { attributes, data }
}

/** Any other order of members: numbers in the data may lose digits. */
function splitForeign(body: string): StructuredParts | undefined {
  const whole = parseObject(body)
  if (whole === undefined) return undefined
  const { data, ...attributes } = whole
  return { attributes, data: JSON.stringify(data ?? null) }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
