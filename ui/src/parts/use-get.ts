import { type ReadonlySignal, useSignal, useSignalEffect } from '@preact/signals';
import { useCallback, useEffect, useRef } from 'preact/hooks';
import type { App } from '../app';
import type { Query } from '../router';

/** An answer of the server. While a later one is on its way the one before stays. */
export type Fetched<T> =
  | { readonly kind: 'loading' }
  | { readonly kind: 'ready'; readonly data: T; readonly isReloading: boolean }
  | { readonly kind: 'failed'; readonly error: unknown };

/**
 * Asks the server when the component appears and when path or query change; a request whose answer
 * nobody waits for is aborted. What failed is asked for again when the stream is back. `path`
 * undefined asks nothing. The second member of the result asks again.
 */
export function useGet<T>(
  { api, stream }: Pick<App, 'api' | 'stream'>,
  path: string | undefined,
  query: Query = {},
): readonly [ReadonlySignal<Fetched<T>>, () => void] {
  const fetched = useSignal<Fetched<T>>({ kind: 'loading' });
  const running = useRef<AbortController>(undefined);
  const target = useRef<string>(undefined);
  const key = JSON.stringify([path, query]);
  const load = useCallback(() => {
    const [path, query] = JSON.parse(key) as [string | null, Query];
    running.current?.abort();
    if (path === null) return;
    const controller = new AbortController();
    running.current = controller;
    const before = fetched.peek();
    const isSame = target.current === key;
    fetched.value = before.kind === 'ready' && isSame ? { ...before, isReloading: true } : { kind: 'loading' };
    target.current = key;
    api.get<T>(path, query, controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) fetched.value = { kind: 'ready', data, isReloading: false };
      },
      (error: unknown) => {
        if (!controller.signal.aborted) fetched.value = { kind: 'failed', error };
      },
    );
  }, [api, key, fetched]);
  useEffect(() => {
    load();
    return () => running.current?.abort();
  }, [load]);
  useSignalEffect(() => {
    if (stream.value.kind === 'live' && fetched.peek().kind === 'failed') load();
  });
  return [fetched, load];
}
