import { effect, type ReadonlySignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Fetched } from '../../parts/use-get';

/** Least time from one request to the next, in milliseconds. */
const ASK_MS = 1000;

/**
 * Asks again after each change of `changes`, and when the tab is seen again: one request at a time,
 * at most one a second. A change during a request asks once more after it.
 */
export function useFresh<T>(
  fetched: ReadonlySignal<Fetched<T>>,
  ask: () => void,
  changes: ReadonlySignal<unknown>,
): void {
  useEffect(() => {
    let askedAt = performance.now();
    let isWanted = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = (): void => {
      const shown = fetched.peek();
      const isUnderWay = shown.kind === 'loading' || (shown.kind === 'ready' && shown.isReloading);
      if (!isWanted || isUnderWay || timer !== undefined) return;
      timer = setTimeout(
        () => {
          timer = undefined;
          isWanted = false;
          askedAt = performance.now();
          ask();
        },
        Math.max(0, askedAt + ASK_MS - performance.now()),
      );
    };
    const want = (): void => {
      isWanted = true;
      next();
    };
    const onSeen = (): void => {
      if (!document.hidden) want();
    };
    let isFirst = true;
    const stopChanges = effect(() => {
      changes.value;
      if (!isFirst) want();
      isFirst = false;
    });
    const stopFetched = effect(() => {
      fetched.value;
      next();
    });
    document.addEventListener('visibilitychange', onSeen);
    return () => {
      clearTimeout(timer);
      stopChanges();
      stopFetched();
      document.removeEventListener('visibilitychange', onSeen);
    };
  }, [fetched, ask, changes]);
}
