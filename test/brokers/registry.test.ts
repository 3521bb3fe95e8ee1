import { describe, expect, it } from 'vitest'
import { loadDependency } from '../../src/brokers/dependency.ts'
import { brokerTypes, createBrokerPublisher, loadBrokerSpecs } from '../../src/brokers/registry.ts'

describe('the registry of brokers', () => {
  it('describes the options of every type', async () => {
    const specs = await loadBrokerSpecs()
    expect(Object.keys(specs)).toEqual([...brokerTypes])
    for (const { shape } of Object.values(specs)) {
      if (shape.kind !== 'object') throw new Error('expected an object')
      for (const [name, { text }] of Object.entries(shape.fields)) expect(text, name).not.toBe('')
    }
  })

  it('makes a publisher under the name of the destination', async () => {
    const publisher = await createBrokerPublisher('orders-hook', 'webhook', { url: 'http://127.0.0.1:9/' })
    expect(publisher.name).toBe('orders-hook')
    await publisher.close()
  })

  it('refuses an unknown type with the nearest known one', async () => {
    await expect(createBrokerPublisher('bus', 'rabitmq', {})).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      message:
        `expected destinations.bus.type to be one of ${brokerTypes.join(', ')}, got "rabitmq", ` +
        'did you mean "rabbitmq"?',
    })
    await expect(createBrokerPublisher('bus', '__proto__', {})).rejects.toThrow(/destinations\.bus\.type/)
  })

  it('refuses wrong options under the path of the destination', async () => {
    await expect(
      createBrokerPublisher('hook', 'webhook', { url: 'ftp://x', connection: 3 }),
    ).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      details: {
        problems: [
          expect.stringContaining('destinations.hook.connection'),
          expect.stringContaining('destinations.hook.url'),
        ],
      },
    })
  })

  it.each([
    ['webhook', { url: 'http//user:hunter2@127.0.0.1/path' }],
    ['webhook', { url: 'http://user:hunter2@[::1/path' }],
    ['webhook', { url: 'http://127.0.0.1/', secret: 'whsec_hunter2!' }],
    ['webhook', { url: 'http://127.0.0.1/', headers: { authorization: 'hunter2\n' } }],
    ['kafka', { brokers: ['kafka://user:hunter2@127.0.0.1:9092'] }],
    [
      'kafka',
      { brokers: ['127.0.0.1:9092'], sasl: { mechanism: 'plain', username: 'u', password: 'hunter2', x: 1 } },
    ],
    ['kafka', { brokers: ['127.0.0.1:9092'], tls: true, key: 'hunter2' }],
    ['rabbitmq', { url: 'amqp://user:hunter2@127.0.0.1:x' }],
    ['nats', { url: 'nats://user:hunter2@127.0.0.1:x' }],
    ['nats', { url: ['nats://127.0.0.1', 'nats://user:hunter2%@127.0.0.1'] }],
    ['nats', { url: 'nats://127.0.0.1', creds: 'hunter2' }],
    ['nats', { url: 'nats://127.0.0.1', key: 'hunter2' }],
    ['redis-streams', { url: 'redis://user:hunter2@127.0.0.1/x' }],
    ['redis-streams', { url: 'redis://user:hunter2%@127.0.0.1' }],
    ['rabbitmq', { url: 'amqp://user:hunter2%@127.0.0.1' }],
  ])('never shows a secret of %s options: %j', async (type, options) => {
    const error: Error = await createBrokerPublisher('d', type, options).then(
      () => expect.unreachable(),
      (e) => e,
    )
    expect(error).toMatchObject({ code: 'CONFIGURATION_INVALID' })
    expect(error.message).not.toContain('hunter2')
  })
})

describe('options of NATS', () => {
  it('name certificate and key together', async () => {
    const cert = '-----BEGIN CERTIFICATE-----'
    await expect(createBrokerPublisher('bus', 'nats', { url: 'nats://127.0.0.1', cert })).rejects.toThrow(
      'expected destinations.bus.cert and destinations.bus.key together, got one of them',
    )
  })
})

describe('a library', () => {
  it('that is not installed is named, with the command that installs it', async () => {
    const name = 'a-package-that-is-not-installed'
    await expect(loadDependency('rabbitmq', 'rabbitmq-client', () => import(name))).rejects.toMatchObject({
      code: 'DEPENDENCY_MISSING',
      message:
        'rabbitmq needs the package rabbitmq-client, which is not installed: run "npm install rabbitmq-client"',
    })
  })

  it('is not confused with one that fails', async () => {
    await expect(loadDependency('x', 'y', () => Promise.reject(new Error('broken')))).rejects.toThrow(
      'broken',
    )
  })
})
