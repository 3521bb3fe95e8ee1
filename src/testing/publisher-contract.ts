import type { PublisherBench, PublisherSubject, TestRunner } from './publisher-bench.ts'
import { publisherChecks } from './publisher-checks.ts'

/**
 * Tests a publisher against the contract of `Publisher`, with a real destination.
 *
 *     testPublisher({ name: 'rabbitmq', features: {…}, setUp: async () => bench }, { describe, it, afterAll })
 */
export function testPublisher(subject: PublisherSubject, { describe, it, afterAll }: TestRunner): void {
  describe(`${subject.name} as a publisher`, () => {
    let bench: Promise<PublisherBench> | undefined
    afterAll(async () => (await bench)?.tearDown())
    for (const { name, applies, run } of publisherChecks) {
      if (applies(subject.features))
        it(name, async () => run(await (bench ??= subject.setUp()), subject.features))
    }
  })
}
