import type { AsyncMessage, Channel } from 'rabbitmq-client'

interface Frame {
  fields: { contentType?: string; rawContentType?: string }
}

/**
 * Makes a channel hand over bodies as they came. The library parses those of the type application/json, and a number
 * beyond 2^53, or `1.10`, does not survive that; there is no option against it. It decides by the content type, so
 * that is kept from it; {@link contentTypeOf} has it.
 */
export function keepBodies(channel: Channel): void {
  const inner = channel as unknown as Record<'_onHeader', ((frame: Frame) => void) | undefined>
  const original = inner['_onHeader']?.bind(channel)
  if (original === undefined) throw new Error('this version of rabbitmq-client is not known: install 5.x')
  inner['_onHeader'] = (frame) => {
    const { fields } = frame
    if (fields.contentType !== undefined) fields.rawContentType = fields.contentType
    delete fields.contentType
    original(frame)
  }
}

export function contentTypeOf(message: AsyncMessage): string | null {
  return (message as Frame['fields']).rawContentType ?? null
}
