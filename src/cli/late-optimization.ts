import { setFlagsFromString } from 'node:v8';

/** A flag of V8: how much a function has run before it is optimized. */
interface Threshold {
  readonly flag: string;
  readonly starting: number;
  /** V8's own default. */
  readonly later: number;
}

/**
 * By the major version of V8, those of Node 20 and 22. About ten times the default: more gains nothing (measured). From V8 13 on
 * there is a compiler between, and later optimization gains nothing.
 */
const THRESHOLDS: Readonly<Record<string, Threshold>> = {
  11: { flag: 'interrupt-budget', starting: 600_000, later: 67_584 },
  12: { flag: 'invocation-count-for-turbofan', starting: 30_000, later: 3_000 },
};

/**
 * Has V8 optimize functions later than it would, until the function that this gives is called: of what runs in the first second
 * most is over before its optimization pays, and that took a quarter of the CPU time of a start with 1,000 documents.
 */
export function optimizeLater(v8Version = process.versions.v8, setFlag = setFlagsFromString): () => void {
  const threshold = THRESHOLDS[v8Version.split('.', 1)[0] ?? ''];
  if (threshold === undefined) return () => undefined;
  const { flag, starting, later } = threshold;
  setFlag(`--${flag}=${starting}`);
  return () => setFlag(`--${flag}=${later}`);
}
