import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where a program is: in one of the given folders, else in PATH. */
export function findProgram(name: string, folders: readonly string[] = []): string | undefined {
  const path = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  return [...folders, ...path].map((folder) => join(folder, name)).find((file) => existsSync(file))
}

/** RabbitMQ's own script: the one that Debian puts into PATH changes to another account first. */
export function findRabbitmq(): string | undefined {
  const places = process.env['WAYBILL_TEST_SERVICE_PLACES'] ?? '/usr/lib/rabbitmq/bin'
  return findProgram(
    'rabbitmq-server',
    places.split(delimiter).filter((place) => place !== ''),
  )
}

/** Debian has it among the programs of the administrator, where PATH of others does not look. */
export function findPgbouncer(): string | undefined {
  return findProgram('pgbouncer', ['/usr/sbin'])
}

/** Also among the programs of the administrator. */
export function findNats(): string | undefined {
  return findProgram('nats-server', ['/usr/sbin'])
}

export function findRedis(): string | undefined {
  return findProgram('redis-server')
}

export function findChromium(): string | undefined {
  return findProgram('chromium')
}

const pom = fileURLToPath(new URL('kafka/pom.xml', import.meta.url))

/**
 * The folder with Kafka's jars that scripts/install-test-services.sh makes: of the system when it ran as root, else of
 * the user. One that was made for another version, or not to its end, does not count.
 */
export function findKafka(): string | undefined {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const wanted = readFileSync(pom, 'utf8')
  return ['/var/cache', cache]
    .map((folder) => join(folder, 'waybill', 'kafka'))
    .find((folder) => {
      const made = join(folder, 'pom.xml')
      return existsSync(made) && readFileSync(made, 'utf8') === wanted
    })
}
