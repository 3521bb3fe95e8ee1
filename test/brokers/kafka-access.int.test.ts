import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  Kafka,
  ResourcePatternTypes,
  logLevel,
} from 'kafkajs'
import { beforeAll, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { describeWith } from '../support/services.ts'
import { kafka, publish, publishOne, statuses } from './kafka-bench.ts'
import { failure } from './publishing.ts'

const users = { admin: 'admin-secret', writer: 'hunter2' }
const certificate = selfSignedCertificate()
let server: KafkaServer
let admin: ReturnType<Kafka['admin']>

function loginSettings(listener: string): [name: string, value: string][] {
  const known = Object.entries(users).map(([user, password]) => ` user_${user}="${password}"`)
  const setting = (mechanism: string, module: string): [string, string] => [
    `listener.name.${listener}.${mechanism}.sasl.jaas.config`,
    `org.apache.kafka.common.security.${module} required${mechanism === 'plain' ? known.join('') : ''};`,
  ]
  return [
    setting('plain', 'plain.PlainLoginModule'),
    setting('scram-sha-256', 'scram.ScramLoginModule'),
    setting('scram-sha-512', 'scram.ScramLoginModule'),
  ]
}
const pem = (text: string) => text.replaceAll('\n', String.raw`\n`)

/** Three ways in: open (an administrator's), with a password, and with a password over TLS. */
async function startGuarded(): Promise<KafkaServer> {
  const started = await startKafka({
    listeners: { LOGIN: 'SASL_PLAINTEXT', SECURE: 'SASL_SSL', TLS: 'SSL' },
    settings: {
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users': 'User:ANONYMOUS;User:admin',
      'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
      ...Object.fromEntries(['login', 'secure'].flatMap(loginSettings)),
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.key': pem(certificate.key),
      'ssl.keystore.certificate.chain': pem(certificate.cert),
    },
  })
  admin = new Kafka({ brokers: [started.url], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  atEndOfFile(() => admin.disconnect())
  await admin.createTopics({ topics: [{ topic: 'allowed' }, { topic: 'forbidden' }], waitForLeaders: true })
  await admin.createAcls({
    acl: [
      {
        resourceType: AclResourceTypes.TOPIC,
        resourceName: 'allowed',
        resourcePatternType: ResourcePatternTypes.LITERAL,
        principal: 'User:writer',
        host: '*',
        operation: AclOperationTypes.WRITE,
        permissionType: AclPermissionTypes.ALLOW,
      },
    ],
  })
  return started
}

const login = (password = users.writer) => ({
  mechanism: 'plain' as const,
  username: 'writer',
  password,
})
const allowed = () => testMessage({ topic: 'allowed' })

describeWith('kafka-server', 'access to Kafka', () => {
  beforeAll(async () => {
    server = await startGuarded()
  })

  it('with user and password, in the clear and over TLS; the permission to write is all that is needed', async () => {
    const publishers = [
      await kafka(server.listener('LOGIN'), { sasl: login() }),
      await kafka(server.listener('SECURE'), { sasl: login(), tls: true, ca: certificate.cert }),
      await kafka(server.listener('LOGIN'), { client: { sasl: login() } }),
    ]
    for (const publisher of publishers) {
      expect(await publishOne(publisher, allowed())).toMatchObject({ status: 'published' })
    }
  })

  it.each(['scram-sha-256', 'scram-sha-512'] as const)('with %s', async (mechanism) => {
    await server.run('kafka.admin.ConfigCommand', [
      ...['--bootstrap-server', server.url, '--alter', '--entity-type', 'users', '--entity-name', 'writer'],
      ...['--add-config', `${mechanism.toUpperCase()}=[password=${users.writer}]`],
    ])
    const publisher = await kafka(server.listener('LOGIN'), { sasl: { ...login(), mechanism } })
    expect(await publishOne(publisher, allowed())).toMatchObject({ status: 'published' })
  })

  it('is an outage with a wrong password, without one, or without trust, and shows no password', async () => {
    const cases = [
      await kafka(server.listener('LOGIN'), { sasl: login('wrong-hunter3') }),
      await kafka(server.listener('LOGIN')),
      await kafka(server.listener('SECURE'), { sasl: login(), tls: true }),
      await kafka(server.listener('TLS'), { tls: true }),
      await kafka(server.listener('TLS'), { connectTimeoutMs: 1000 }),
      await kafka(server.url, { tls: true, connectTimeoutMs: 1000 }),
    ]
    for (const [index, publisher] of cases.entries()) {
      const result = await publishOne(publisher, allowed())
      expect(result, `case ${index}`).toMatchObject({
        status: 'retry',
        error: { code: 'BROKER_UNAVAILABLE' },
      })
      const error = await failure(publisher.checkHealth!({ signal: AbortSignal.timeout(10_000) }))
      expect(error, `case ${index}`).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      expect(`${error.message} ${JSON.stringify(error)}`).not.toContain('hunter')
    }
  })

  it('to one topic only: events of others wait, and their neighbours pass', async () => {
    const publisher = await kafka(server.listener('LOGIN'), { sasl: login() })
    const messages = [allowed(), testMessage({ topic: 'forbidden' }), allowed()]
    const results = await publish(publisher, messages)
    expect(statuses(results)).toEqual(['published', 'retry', 'published'])
    expect(results[1]).toMatchObject({
      error: {
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('(the user needs WRITE on it)'),
      },
    })
  })
})
