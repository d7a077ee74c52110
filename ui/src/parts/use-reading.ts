import { type ReadonlySignal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { App } from '../app';

/** What is read from the server again and again. */
export type Reading<T> =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly error: unknown }
  /** `error`: why the last reading failed; what was read before stays. */
  | { readonly kind: 'ready'; readonly data: T; readonly error: unknown };

interface ReadingOptions<T> {
  /** When it is live again after a break, there may be something new. */
  readonly stream: App['stream'];
  /** What is read: with another key everything begins anew. */
  readonly key: string;
  /** May take several requests. */
  read(signal: AbortSignal): Promise<T>;
  /** Another value than before asks for a new reading. */
  readonly moved: unknown;
  /** At most so often, in milliseconds. */
  readonly everyMs: number;
}

/**
 * After a reading comes a rest of at least this many times what it took, however much there is to
 * read.
 */
const REST = 3;

/**
 * Reads when the component appears and when `moved` changes, one at a time, not while the tab is
 * hidden. The second member reads now.
 */
export function useReading<T>({
  stream,
  key,
  read,
  moved,
  everyMs,
}: ReadingOptions<T>): readonly [ReadonlySignal<Reading<T>>, () => void] {
  const reading = useSignal<Reading<T>>({ kind: 'loading' });
  const pace = useRef<Pace | undefined>(undefined);
  const lastLive = useRef<number>(undefined);
  if (stream.value.kind === 'live') lastLive.current = stream.value.since;
  const begun = useRef<string>(undefined);
  const latest = useRef(read);
  latest.current = read;

  useEffect(() => {
    const controller = new AbortController();
    const own = createPace(everyMs, async () => {
      try {
        const data = await latest.current(controller.signal);
        if (!controller.signal.aborted) reading.value = { kind: 'ready', data, error: undefined };
      } catch (error) {
        if (controller.signal.aborted) return;
        const { value } = reading;
        reading.value = value.kind === 'ready' ? { ...value, error } : { kind: 'failed', error };
      }
    });
    reading.value = { kind: 'loading' };
    pace.current = own;
    own.want();
    return () => {
      controller.abort();
      own.stop();
    };
  }, [key, everyMs, reading]);

  // Another key reads by itself, with what is there by then.
  useEffect(() => {
    if (begun.current === key) pace.current?.want();
    begun.current = key;
  }, [key, moved, lastLive.current]);

  return [reading, () => pace.current?.want()];
}

interface Pace {
  want(): void;
  stop(): void;
}

/** Runs `read` when it is wanted, with a rest after each that grows with what it took. */
function createPace(everyMs: number, read: () => Promise<void>): Pace {
  let isWanted = false;
  let isBusy = false;
  let isStopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = (): void => {
    if (isStopped || isBusy || !isWanted || document.hidden) return;
    isBusy = true;
    isWanted = false;
    const began = performance.now();
    void read().finally(() => {
      const took = performance.now() - began;
      timer = setTimeout(
        () => {
          isBusy = false;
          run();
        },
        Math.max(everyMs - took, REST * took),
      );
    });
  };
  document.addEventListener('visibilitychange', run);
  return {
    want() {
      isWanted = true;
      run();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', run);
    },
  };
}
