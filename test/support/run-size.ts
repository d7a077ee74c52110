/** A size of a test for each kind of run. */
interface Sizes {
  /** `npm run test:long`. */
  readonly long: number;
  /** `.ci/run`. */
  readonly ci: number;
  /** `npm test`: what a developer waits for. */
  readonly quick: number;
}

/** The size of this run. */
export function runSize({ long, ci, quick }: Sizes): number {
  if (process.env.SYNC_TEST_LONG === '1') return long;
  return process.env.SYNC_TEST_SOAK === '1' ? ci : quick;
}
