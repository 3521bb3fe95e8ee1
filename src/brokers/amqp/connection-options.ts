export interface ConnectionSettings {
  readonly url: string
  readonly connectTimeoutMs: number
  readonly heartbeatSeconds: number
  readonly ca?: string | undefined
}

/** RabbitMQ's own default; the library's is 8 KiB, which is also the limit for all headers of a message. */
export const frameBytesWanted = 131_072

/** What a connection of the library is made with. */
export function connectionOptions(
  { url, connectTimeoutMs, heartbeatSeconds, ca }: ConnectionSettings,
  name: string,
  frameBytes: number,
): Record<string, unknown> {
  return {
    url,
    connectionName: `waybill ${name}`,
    connectionTimeout: connectTimeoutMs,
    acquireTimeout: connectTimeoutMs,
    heartbeat: heartbeatSeconds,
    frameMax: frameBytes,
    noDelay: true,
    ...(ca === undefined ? {} : { tls: { ca } }),
  }
}

/** Host and port: what may be shown of an address with a password. */
export function where(url: string): string {
  const { protocol, hostname, port } = new URL(url)
  return `RabbitMQ at ${hostname}:${port || (protocol === 'amqps:' ? '5671' : '5672')}`
}
