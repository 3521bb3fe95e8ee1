import { lookup } from 'node:dns'
import { BlockList, type LookupFunction, isIP } from 'node:net'

// Everything that IANA's special-purpose registries keep out of the public internet, and multicast.
const ipv4: readonly (readonly [string, number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]
const ipv6: readonly (readonly [string, number])[] = [
  ['::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 9],
  ['ff00::', 8],
]

const blocked = new BlockList()
for (const [address, bits] of ipv4) {
  blocked.addSubnet(address, bits, 'ipv4')
  // The same networks as an IPv6 address reaches them: mapped, through NAT64 and through 6to4.
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
  const groups = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
  blocked.addSubnet(`::ffff:${groups}`, 96 + bits, 'ipv6')
  blocked.addSubnet(`64:ff9b::${groups}`, 96 + bits, 'ipv6')
  blocked.addSubnet(`2002:${groups}::`, 16 + bits, 'ipv6')
}
for (const [address, bits] of ipv6) blocked.addSubnet(address, bits, 'ipv6')

/** True for an address that is not on the public internet, in whatever form it is written. */
export function isPrivateAddress(address: string): boolean {
  const family = isIP(address)
  return family === 0 || blocked.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

/** Why a computed address was not connected to. */
export class PrivateAddressError extends Error {
  override readonly name = 'PrivateAddressError'
}

/**
 * Resolves a name to its public addresses only. It is given to the socket itself, so that the address that was
 * checked is the address that is connected to: a name that resolves differently a moment later changes nothing.
 */
export const lookupPublic: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, [])
    const open = addresses.filter(({ address }) => !isPrivateAddress(address))
    const [first] = open
    if (first === undefined) {
      return callback(new PrivateAddressError(`${hostname} has no public address`), [])
    }
    if (options.all === true) callback(null, open)
    else callback(null, first.address, first.family)
  })
}
