import type { RelayJob } from './child/job.ts'
import type { Child, Children } from './children.ts'

/** A relay on a database, in a process of its own, that publishes to nowhere unless told otherwise. */
export function startRelay(
  children: Children,
  options: Pick<RelayJob, 'url'> & Partial<RelayJob>,
  process: { seconds: number; profileFolder?: string | undefined },
): Child {
  return children.start(
    {
      job: 'relay',
      wakeup: 'auto',
      publisherMs: 0,
      slow: null,
      refuse: null,
      record: null,
      ...options,
    },
    { timeoutMs: process.seconds * 1000 + spareMs, profileFolder: process.profileFolder },
  )
}

/** For starting, stopping, and for machines that have other things to do. */
const spareMs = 60_000
