import { describe, expect, it } from 'vitest'
import { type EventReference, createTelemetry } from '../../src/telemetry/events.ts'
import { type LogLevel, logLines } from '../../src/telemetry/log-lines.ts'
import { createLog } from '../../src/telemetry/log.ts'

function logged(level?: LogLevel) {
  const written: string[] = []
  const telemetry = createTelemetry()
  const log = createLog({
    ...(level === undefined ? {} : { level }),
    destination: { write: (line) => written.push(line) },
  })
  const detach = log.attach(telemetry)
  return { telemetry, detach, logger: log.logger, lines: () => written.map((line) => JSON.parse(line)) }
}

const reference: EventReference = {
  eventId: '0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10',
  eventType: 'order.created',
  aggregateType: 'order',
  aggregateId: 'o-1',
  attempt: 1,
}

describe('the log', () => {
  it('writes one JSON line with time, level, message, the name of the event and its fields', () => {
    const { telemetry, lines } = logged()
    telemetry.emit('destination.down', { destination: 'bus', error: 'connect ECONNREFUSED' })
    expect(lines()).toEqual([
      {
        level: 'error',
        time: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/),
        pid: process.pid,
        event: 'destination.down',
        destination: 'bus',
        error: 'connect ECONNREFUSED',
        msg: 'destination is away, its events wait and no attempt is counted',
      },
    ])
  })

  it('names event_id, event_type, aggregate_id and attempt on every line about an event', () => {
    const { telemetry, lines } = logged()
    telemetry.emit('event.failed', {
      ...reference,
      destination: 'bus',
      error: 'HTTP 500',
      counted: true,
      retryInMs: 900,
    })
    telemetry.emit('event.dead', {
      ...reference,
      attempt: 8,
      destination: null,
      error: 'no route',
      holds: false,
    })
    expect(lines()).toHaveLength(2)
    for (const line of lines()) {
      expect(line).toMatchObject({
        event_id: reference.eventId,
        event_type: 'order.created',
        aggregate_type: 'order',
        aggregate_id: 'o-1',
        attempt: expect.any(Number),
      })
    }
    expect(lines()[0]).toMatchObject({ level: 'warn', retry_in_ms: 900 })
    expect(lines()[1]).toMatchObject({ level: 'error', attempt: 8, destination: null })
  })

  it('says that an event fails once, not with every further try', () => {
    const { telemetry, lines } = logged()
    const failed = { ...reference, destination: 'bus', error: 'HTTP 500', counted: true, retryInMs: 900 }
    telemetry.emit('event.failed', { ...failed, counted: false })
    telemetry.emit('event.failed', failed)
    telemetry.emit('event.failed', { ...failed, attempt: 2 })
    telemetry.emit('event.failed', { ...failed, attempt: 3 })
    expect(lines().map(({ attempt }) => attempt)).toEqual([1])
  })

  it('is silent about what happens over and over, unless asked for', () => {
    const batch = { destination: 'bus', durationMs: 5, published: 2, failed: 0, latenciesMs: [1, 2] }
    const quiet = logged()
    quiet.telemetry.emit('batch.finished', batch)
    quiet.telemetry.emit('relay.wakeup', { source: 'poll' })
    quiet.telemetry.emit('prune.finished', { deleted: 0, durationMs: 1 })
    expect(quiet.lines()).toEqual([])
    const talkative = logged('trace')
    talkative.telemetry.emit('batch.finished', batch)
    talkative.telemetry.emit('relay.wakeup', { source: 'poll' })
    expect(talkative.lines()).toMatchObject([
      { level: 'debug', published: 2 },
      { level: 'trace', source: 'poll' },
    ])
    expect(talkative.lines()[0]).not.toHaveProperty('latencies_ms')
  })

  it('chooses the level by what the event says', () => {
    const { telemetry, lines } = logged()
    telemetry.emit('relay.stopped', { relayId: 'r', clean: true })
    telemetry.emit('relay.stopped', { relayId: 'r', clean: false })
    telemetry.emit('prune.finished', { deleted: 3, durationMs: 1 })
    expect(lines().map(({ level }) => level)).toEqual(['info', 'error', 'info'])
  })

  it('keeps to its level, and says nothing more once detached', () => {
    const { telemetry, lines, detach } = logged('error')
    telemetry.emit('destination.up', { destination: 'bus', downMs: 5 })
    telemetry.emit('database.down', { error: 'x' })
    detach()
    telemetry.emit('database.down', { error: 'x' })
    expect(lines()).toHaveLength(1)
  })

  it('is silent when told so', () => {
    const { telemetry, lines } = logged('silent')
    telemetry.emit('database.down', { error: 'x' })
    expect(lines()).toEqual([])
  })

  it('refuses a level that it does not know', () => {
    expect(() => createLog({ level: 'loud' as never })).toThrow(
      expect.objectContaining({
        code: 'CONFIGURATION_INVALID',
        message: expect.stringMatching(/log level.*got "loud"/),
      }),
    )
  })

  it('does not let a broken destination disturb the work', () => {
    const telemetry = createTelemetry()
    let tried = 0
    createLog({
      destination: {
        write: () => {
          tried++
          throw new Error('disk full')
        },
      },
    }).attach(telemetry)
    expect(() => telemetry.emit('database.down', { error: 'x' })).not.toThrow()
    expect(tried).toBe(1)
  })

  it('has a message of its own for each event', () => {
    const messages = Object.values(logLines).map(({ message }) => message)
    expect(new Set(messages).size).toBe(messages.length)
  })
})
