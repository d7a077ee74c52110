import { urlEntry } from './publish.js';
import type { Stage } from './stage.js';

/** Bytes of the documents. */
const DOCUMENT_BYTES = 1_000;
const WITHIN_MS = 15_000;
const WARM_UP = 20;

/** How much is measured: so many publications, fewer where they take longer than the time, and in any case a few. */
export interface LatencyOptions {
  readonly count: number;
  readonly limitMs: number;
  /** Publications that are made before any is measured. */
  readonly warmUp?: number;
}
const AT_LEAST = 10;

/**
 * Publishes documents behind a URL one after the other and measures, for each, the ms from the call of the publisher to the
 * moment at which the engine answers the new value.
 */
export async function publishToReadable(
  stage: Pick<Stage, 'source' | 'publisher' | 'reader'>,
  { count, limitMs, warmUp = WARM_UP }: LatencyOptions,
): Promise<number[]> {
  const { source, publisher, reader } = stage;
  const samples: number[] = [];
  let startMs = performance.now();
  const isOver = (): boolean => samples.length >= AT_LEAST && performance.now() - startMs > limitMs;
  for (let at = -warmUp; at < count && !isOver(); at++) {
    // Each value is a new one also where two runs share an engine.
    const n = ++published;
    // A few paths in turn: each is written over and over, as in life.
    const path = `/latency/p${n % 5}`;
    const sentMs = performance.now();
    if (at === 0) startMs = sentMs;
    const [readMs] = await Promise.all([
      reader.reads(`${path}/n`, (answer) => answer.includes(`:${n}}`), WITHIN_MS),
      publisher.publish([urlEntry(source.document(n, DOCUMENT_BYTES), path)]),
    ]);
    if (at >= 0) samples.push(readMs - sentMs);
  }
  return samples;
}

let published = 0;
