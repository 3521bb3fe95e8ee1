import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  createServer,
  request as httpRequest,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { atEndOfFile } from './cleanups.ts'

/** A request of the SDK on its way to the emulator. */
export interface AwsRequest {
  /** `SendMessageBatch`, `PublishBatch` … */
  readonly action: string
  readonly body: string
  readonly headers: IncomingHttpHeaders
}

export interface AwsResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Answers a request, passes it on (perhaps changed), or answers never: undefined. */
type AwsHandler = (
  request: AwsRequest,
  pass: (body?: string) => Promise<AwsResponse>,
) => AwsResponse | undefined | Promise<AwsResponse | undefined>

/**
 * Stands before the emulator and says what AWS says and no emulator does: throttling, expired credentials, keys that
 * are gone, an entry of a batch that fails while the others are taken.
 */
export interface AwsFront {
  readonly url: string
  /** All requests so far. */
  readonly requests: AwsRequest[]
  /** Requests that were given up before they had an answer. */
  readonly givenUp: AwsRequest[]
  /** Default: passes everything on. */
  handler: AwsHandler
  /** Resolves when so many requests have come. */
  waitFor(count: number): Promise<void>
}

export async function startAwsFront(target: string): Promise<AwsFront> {
  const waiting = new Set<() => void>()
  const server = createServer((incoming, response) => {
    void (async () => {
      const body = (await buffer(incoming)).toString('utf8')
      const request = { action: actionOf(incoming, body), body, headers: incoming.headers }
      front.requests.push(request)
      response.once('close', () => {
        if (!response.writableFinished) front.givenUp.push(request)
      })
      for (const wake of waiting) wake()
      const answer = await front.handler(request, (changed = body) => forward(target, incoming, changed))
      if (answer !== undefined) response.writeHead(answer.status, answer.headers).end(answer.body)
    })().catch((error: unknown) => response.destroy(error as Error))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEndOfFile(() => {
    server.close()
    server.closeAllConnections()
  })
  const front: AwsFront = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    givenUp: [],
    handler: (_request, pass) => pass(),
    async waitFor(count) {
      while (front.requests.length < count) {
        await new Promise<void>((resolve) => waiting.add(resolve))
        waiting.clear()
      }
    },
  }
  return front
}

function actionOf({ headers }: IncomingMessage, body: string): string {
  const target = headers['x-amz-target']
  return typeof target === 'string'
    ? target.replace('AmazonSQS.', '')
    : (new URLSearchParams(body).get('Action') ?? '')
}

function forward(target: string, { method, headers }: IncomingMessage, body: string): Promise<AwsResponse> {
  return new Promise((resolve, reject) => {
    const sent = { ...headers, 'content-length': String(Buffer.byteLength(body)) }
    const outgoing = httpRequest(target, { method: method!, headers: sent, agent: false }, (response) => {
      buffer(response).then(
        (bytes) =>
          resolve({
            status: response.statusCode!,
            headers: { 'content-type': response.headers['content-type'] ?? '' },
            body: bytes.toString('utf8'),
          }),
        reject,
      )
    })
    outgoing.once('error', reject).end(body)
  })
}

/** An error as SQS writes it. */
export function sqsError(code: string, status = 400, queryCode?: string): AwsResponse {
  return {
    status,
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      ...(queryCode === undefined ? {} : { 'x-amzn-query-error': `${queryCode};Sender` }),
    },
    body: JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message: `${code} was said` }),
  }
}

/** An error as SNS writes it. */
export function snsError(code: string, status = 400): AwsResponse {
  return {
    status,
    headers: { 'content-type': 'text/xml' },
    body:
      '<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">' +
      `<Error><Type>Sender</Type><Code>${code}</Code><Message>${code} was said</Message></Error>` +
      '<RequestId>1</RequestId></ErrorResponse>',
  }
}

/** Lets these entries of a batch of SQS fail as said, and passes on the others. */
export async function failEntries(
  request: AwsRequest,
  pass: (body?: string) => Promise<AwsResponse>,
  fail: (body: string) => { Code: string; SenderFault: boolean; Message?: string } | undefined,
): Promise<AwsResponse> {
  type Batch = { Entries: { Id: string; MessageBody: string }[] }
  const batch = JSON.parse(request.body) as Batch
  const Failed = batch.Entries.flatMap(({ Id, MessageBody }) => {
    const failure = fail(MessageBody)
    return failure === undefined ? [] : [{ Id, ...failure }]
  })
  const Entries = batch.Entries.filter(({ Id }) => !Failed.some((failed) => failed.Id === Id))
  const none = { status: 200, headers: { 'content-type': 'application/x-amz-json-1.0' }, body: '{}' }
  const answer = Entries.length === 0 ? none : await pass(JSON.stringify({ ...batch, Entries }))
  return { ...answer, body: JSON.stringify({ ...(JSON.parse(answer.body) as object), Failed }) }
}
