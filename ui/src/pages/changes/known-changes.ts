import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { ChangesAnswer, FleetChange } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';
import { changeKey } from '../../stream/pending';
import { newestKnown } from './newest-known';

/** The page keeps no more than this, so that it stays quick however far one goes back. */
const MOST = 1000;

/** What the page knows of changes: those of the stream, and the older ones that it asked for. */
export interface KnownChanges {
  /** Newest first, each once. */
  readonly changes: readonly FleetChange[];
  readonly older: 'more' | 'asking' | 'none' | 'full';
  /** Why older ones did not come. */
  readonly error: unknown;
  /** Asks for the next older ones. */
  more(): void;
}

/**
 * Changes of the stream stay on the page when newer ones push them out of it. Older ones come page
 * by page: the first question only says where the second page begins, for the changes of the first
 * one are here already.
 */
export function useChanges({ store, api }: App): KnownChanges {
  const known = useRef(new Map<string, FleetChange>());
  const epoch = useRef('');
  const cursor = useRef<string | undefined>(undefined);
  const asked = useSignal<{ state: Exclude<KnownChanges['older'], 'full'>; error: unknown }>({
    state: 'more',
    error: undefined,
  });
  const request = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => request.current?.abort(), []);

  const streamed = store.changes.value;
  if (epoch.current !== store.epoch.value || isBeyond(known.current, streamed)) {
    known.current = new Map();
    cursor.current = undefined;
    epoch.current = store.epoch.value;
    request.current?.abort();
  }
  const anew = known.current;
  useEffect(() => {
    asked.value = { state: 'more', error: undefined };
  }, [anew, asked]);
  const changes = newestKnown(known.current, streamed, MOST);

  async function ask(signal: AbortSignal): Promise<void> {
    // Twice where the page that comes has only what is known already: the newest, the first time.
    for (let tries = 0; tries < 2; tries++) {
      const before = known.current.size;
      const answer = await api.get<ChangesAnswer>('/changes', { before: cursor.current }, signal);
      for (const change of answer.changes) {
        const key = changeKey(change);
        if (!known.current.has(key)) known.current.set(key, change);
      }
      cursor.current = answer.next ?? undefined;
      if (answer.next === null || known.current.size > before) break;
    }
    asked.value = { state: cursor.current === undefined ? 'none' : 'more', error: undefined };
  }
  function more(): void {
    if (asked.peek().state !== 'more') return;
    asked.value = { state: 'asking', error: undefined };
    const controller = new AbortController();
    request.current = controller;
    ask(controller.signal).catch((error: unknown) => {
      if (!controller.signal.aborted) asked.value = { state: 'more', error };
    });
  }
  const { state, error } = asked.value;
  return { changes, older: changes.length >= MOST ? 'full' : state, error, more };
}

/**
 * More changes came at once than the stream keeps, as after a long time in the background: those
 * between are not known.
 */
function isBeyond(known: ReadonlyMap<string, FleetChange>, streamed: readonly FleetChange[]): boolean {
  return known.size > 0 && streamed.length > 0 && streamed.every((change) => !known.has(changeKey(change)));
}
