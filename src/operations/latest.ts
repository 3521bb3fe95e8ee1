/** The newest result known here, whoever made it, whose age goes on. */
export function createLatest<Stored extends { readonly ageSeconds: number }>() {
  let latest: { stored: Stored; readAt: number } | undefined
  return {
    /** Null forgets it. */
    remember(stored: Stored | null): void {
      latest = stored === null ? undefined : { stored, readAt: performance.now() }
    },
    /** With its present age; null when there is none. */
    get(): Stored | null {
      if (latest === undefined) return null
      const { stored, readAt } = latest
      return { ...stored, ageSeconds: stored.ageSeconds + (performance.now() - readAt) / 1000 }
    },
  }
}
