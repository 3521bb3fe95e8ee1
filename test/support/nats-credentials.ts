import { randomUUID } from 'node:crypto'
import { nkeys } from '@nats-io/transport-node'

export interface NatsCredentials {
  /** For the server's configuration: the operator that it trusts, and his accounts, of which the user's has JetStream. */
  readonly configuration: string
  /** The text of a user's credentials file. */
  readonly creds: string
}

/** An operator, an account of his and a user of that, made here so that no key is kept anywhere. */
export function createNatsCredentials(): NatsCredentials {
  const [operator, user] = [nkeys.createOperator(), nkeys.createUser()]
  const [account, system] = [nkeys.createAccount(), nkeys.createAccount()]
  const none = -1
  const limits = {
    subs: none,
    data: none,
    payload: none,
    imports: none,
    exports: none,
    conn: none,
    leaf: none,
  }
  const jetstream = { mem_storage: none, disk_storage: none, streams: none, consumer: none }
  const operatorJwt = token(operator, operator, { type: 'operator' })
  const preload = (key: Key, limits: object) =>
    `${key.getPublicKey()}: ${token(operator, key, { type: 'account', limits })}`
  const userJwt = token(account, user, { type: 'user', subs: none, data: none, payload: none })
  const seed = Buffer.from(user.getSeed()).toString()
  return {
    configuration: `
      operator: ${operatorJwt}
      resolver: MEMORY
      system_account: ${system.getPublicKey()}
      resolver_preload: { ${preload(account, { ...limits, ...jetstream })}, ${preload(system, limits)} }`,
    creds: `-----BEGIN NATS USER JWT-----
${userJwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
${seed}
------END USER NKEY SEED------
`,
  }
}

type Key = ReturnType<typeof nkeys.createUser>

function token(issuer: Key, subject: Key, nats: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = {
    jti: randomUUID(),
    iat: Math.floor(Date.now() / 1000),
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    nats: { ...nats, version: 2 },
  }
  const signed = `${part({ typ: 'JWT', alg: 'ed25519-nkey' })}.${part(claims)}`
  return `${signed}.${Buffer.from(issuer.sign(Buffer.from(signed))).toString('base64url')}`
}
