export interface ClientSettings {
  readonly region?: string | undefined
  readonly endpoint?: string | undefined
  readonly connections: number
  readonly connectTimeoutMs: number
}

/**
 * What a client of the SDK is made with. Credentials are not part of it: the SDK finds them in its usual places. It
 * tries a request twice and no more: that is enough for a kept connection that AWS has closed meanwhile; everything
 * else is the relay's to decide.
 */
export function clientConfig({ region, endpoint, connections, connectTimeoutMs }: ClientSettings) {
  const agent = { maxSockets: connections, keepAlive: true }
  return {
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    maxAttempts: 2,
    requestHandler: { connectionTimeout: connectTimeoutMs, httpAgent: agent, httpsAgent: agent },
  }
}
