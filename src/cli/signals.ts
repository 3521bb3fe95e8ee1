/** A signal to stop (Ctrl-C, SIGTERM) as an AbortSignal; a second one ends the process at once. */
export function interruption(): { signal: AbortSignal; release(): void } {
  const controller = new AbortController()
  const signals = ['SIGINT', 'SIGTERM'] as const
  const stop = () => {
    if (controller.signal.aborted) process.exit(1)
    controller.abort()
  }
  for (const name of signals) process.on(name, stop)
  return {
    signal: controller.signal,
    release: () => {
      for (const name of signals) process.off(name, stop)
    },
  }
}
