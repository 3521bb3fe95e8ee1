import { DiscardPolicy } from '@nats-io/jetstream'
import { beforeAll, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { describeWith } from '../support/services.ts'
import { nats, server, startBench, stream } from './nats-bench.ts'
import { failure, publish, publishOne } from './publishing.ts'

// A user for each thing that can be forbidden.
const accounts = () => `
  accounts {
    MAIN { jetstream { max_file: 200MB }, users: [
      { user: admin, password: admin },
      { user: writer, password: hunter2, permissions: { publish: ["outbox.>", "small.>"], subscribe: ["_INBOX.>"] } },
      { user: deaf, password: hunter2, permissions: { publish: [">"], subscribe: ["inbox.deaf.>"] } },
    ] }
    BARE { users: [{ user: bare, password: hunter2 }] }
  }
  no_auth_user: admin`

const as = (user: string) => server.url.replace('//', `//${user}:hunter2@`)

describeWith('nats-server', 'what NATS says', () => {
  beforeAll(() => startBench(accounts))

  const streams = () => stream.manager.streams

  it('about a subject that no stream takes is an outage with a sentence, and its neighbours pass', async () => {
    const publisher = await nats({ url: server.url })
    const messages = [testMessage(), testMessage({ topic: 'nowhere.a' }), testMessage()]
    expect(await publish(publisher, messages)).toMatchObject([
      { status: 'published' },
      {
        status: 'retry',
        error: {
          code: 'BROKER_UNAVAILABLE',
          message: expect.stringContaining(
            'nats, subject "nowhere.a": no stream takes it, create one whose subjects include it',
          ),
        },
      },
      { status: 'published' },
    ])
    await streams().add({ name: 'NOWHERE', subjects: ['nowhere.>'] })
    expect(await publishOne(publisher, messages[1])).toEqual({
      status: 'published',
      receipt: 'nats:NOWHERE@1',
    })
  })

  it('about another stream than the expected one is an outage', async () => {
    const publisher = await nats({ url: server.url, stream: 'ORDERS' })
    expect(await publishOne(publisher)).toMatchObject({
      status: 'retry',
      error: {
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('is not the one of the option "stream"'),
      },
    })
  })

  it('in an account without JetStream is an outage', async () => {
    expect(await publishOne(await nats({ url: as('bare') }))).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('turn JetStream on') },
    })
  })

  it('about a full stream is an outage, until it has room again', async () => {
    await streams().add({ name: 'FULL', subjects: ['full.>'], max_msgs: 1, discard: DiscardPolicy.New })
    const publisher = await nats({ url: server.url })
    const to = (topic: string) => publishOne(publisher, testMessage({ topic }))
    expect(await to('full.a')).toMatchObject({ status: 'published' })
    expect(await to('full.a')).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('maximum messages exceeded') },
    })
    await streams().purge('FULL')
    expect(await to('full.a')).toMatchObject({ status: 'published' })
  })

  it('about a subject that has no room concerns that subject', async () => {
    await streams().add({
      name: 'LATEST',
      subjects: ['latest.>'],
      max_msgs: 10,
      max_msgs_per_subject: 1,
      discard: DiscardPolicy.New,
      discard_new_per_subject: true,
    })
    const publisher = await nats({ url: server.url })
    const messages = ['latest.a', 'latest.a', 'latest.b'].map((topic) => testMessage({ topic }))
    expect(await publish(publisher, messages)).toMatchObject([
      { status: 'published' },
      { status: 'retry', error: { code: 'PUBLISH_FAILED' } },
      { status: 'published' },
    ])
  })

  it('about a message that is too large for its stream concerns that message, for good', async () => {
    await streams().add({ name: 'SMALL', subjects: ['small.>'], max_msg_size: 1000 })
    const publisher = await nats({ url: server.url })
    const messages = Array.from({ length: 20 }, (_, i) =>
      testMessage({ topic: 'small.a', ...(i === 7 ? { body: `"${'x'.repeat(1000)}"` } : {}) }),
    )
    const results = await publish(publisher, messages)
    expect(results[7]).toMatchObject({
      status: 'reject',
      error: { code: 'EVENT_REJECTED', details: { answer: 'message size exceeds maximum allowed' } },
    })
    expect(results.filter(({ status }) => status === 'published')).toHaveLength(19)
  })

  it('about a sealed stream, and about an account without room, is an outage', async () => {
    await streams().add({ name: 'SEALED', subjects: ['sealed.>'] })
    // The client's types do not know this one.
    await streams().update('SEALED', { sealed: true } as object)
    const publisher = await nats({ url: server.url })
    expect(await publishOne(publisher, testMessage({ topic: 'sealed.a' }))).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('sealed stream') },
    })
    const body = `"${'x'.repeat(1_000_000)}"`
    const messages = Array.from({ length: 250 }, () => testMessage({ body }))
    const results = await publish(publisher, messages, 20_000)
    expect(results.some(({ status }) => status === 'published')).toBe(true)
    expect(results.at(-1)).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringMatching(/resource|storage/) },
    })
    await streams().purge('OUTBOX')
  })

  it('is not mistaken for what somebody else says', async () => {
    const subscriptions = [
      stream.connection.subscribe('rpc.text', {
        callback: (_error, message) => void message.respond('done'),
      }),
      stream.connection.subscribe('rpc.json', {
        callback: (_error, message) => void message.respond('{"ok":1}'),
      }),
    ]
    await stream.connection.flush()
    const messages = ['rpc.text', 'rpc.json'].map((topic) => testMessage({ topic }))
    const results = await publish(await nats({ url: server.url }), messages)
    for (const result of results) {
      expect(result).toMatchObject({
        status: 'retry',
        error: { code: 'PUBLISH_FAILED', message: expect.stringContaining("the answer is not JetStream's") },
      })
    }
    for (const subscription of subscriptions) subscription.unsubscribe()
  })

  it('about a wrong password is an outage, and the password is not told', async () => {
    const url = server.url.replace('//', '//writer:wrong-secret@')
    const error = await failure(publishOne(await nats({ url })))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(error.message).toBe(`cannot connect to NATS at 127.0.0.1:${server.port}: Authorization Violation`)
  })

  it('about a user who may publish to some subjects concerns those alone, each message', async () => {
    const publisher = await nats({ url: as('writer') })
    await publisher.connect!({ signal: AbortSignal.timeout(5000) })
    const topics = ['outbox.a', 'forbidden.a', 'outbox.b', 'forbidden.a', 'forbidden.b']
    const results = await publish(
      publisher,
      topics.map((topic) => testMessage({ topic })),
    )
    expect(results.map(({ status }) => status)).toEqual(['published', 'retry', 'published', 'retry', 'retry'])
    expect(results[3]).toMatchObject({
      error: {
        code: 'PUBLISH_FAILED',
        message: expect.stringContaining('Permissions Violation for Publish'),
      },
    })
    // The connection is the same as before.
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })

  it('about a user who may not receive answers is an outage, until the inbox is one of his', async () => {
    expect(await publishOne(await nats({ url: as('deaf') }))).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('may not receive answers') },
    })
    const publisher = await nats({ url: as('deaf'), inboxPrefix: 'inbox.deaf' })
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })
})
