// The emulator of SQS and SNS as a process of its own: `aws-server.mjs <port> <pid of the parent>`. It ends with its
// parent, also when that is killed.
import { buildApp } from 'fauxqs'

const [port, parent] = process.argv.slice(2).map(Number)

// AWS takes the characters beyond U+FFFF, and so must this; the expression of 1.9.2 sees their halves.
const types = await import(new URL('sqs/sqsTypes.js', import.meta.resolve('fauxqs')).href)
types.INVALID_MESSAGE_BODY_CHAR.test = (text) =>
  /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u.test(text)

const app = buildApp({ logger: false })
await app.listen({ port, host: '127.0.0.1' })
process.stdout.write(`listening on ${app.server.address().port}\n`)

process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
setInterval(() => {
  if (process.ppid !== parent) process.exit(1)
}, 500).unref()
