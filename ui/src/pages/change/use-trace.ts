import type { ReadonlySignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { FleetChange } from '../../../../src/wire/fleet.js';
import type { TraceAnswer, TraceClient } from '../../../../src/wire/trace.js';
import type { App } from '../../app';
import { type Reading, useReading } from '../../parts/use-reading';

/** Clients on a page of the answer, and the most pages that are read. */
const PAGE = 1000;
const PAGES = 10;
const EVERY_MS = 1000;
/** A change that the stream says nothing of any more is looked at now and then. */
const OLD_EVERY_MS = 10_000;

export interface Trace {
  readonly answer: TraceAnswer;
  /** Of all pages that were read. */
  readonly clients: readonly TraceClient[];
  /** There are more clients than were read. */
  readonly isCut: boolean;
}

/**
 * The change that an address names, if the stream has it: by seq, id of an update, or the beginning
 * of a commit.
 */
export function changeOf(changes: readonly FleetChange[], id: string): FleetChange | undefined {
  return changes.find(
    (change) =>
      change.id === id ||
      change.update_id === id ||
      (change.kind === 'policy' && id.length >= 7 && change.id.startsWith(id)),
  );
}

/** The trace of a change: read once, and again when the stream says that it moved. */
export function useTrace(
  { store, api, now, stream }: App,
  id: string,
): readonly [ReadonlySignal<Reading<Trace>>, () => void] {
  const isOver = useRef(false);
  const change = changeOf(store.changes.value, id);
  // Only the part of the time that counts is read: else each second would draw the page.
  const old = isOver.current ? 'over' : `old ${Math.floor(now.value / OLD_EVERY_MS)}`;
  const moved = change === undefined ? old : JSON.stringify([change.counts, change.state]);
  return useReading({
    stream,
    key: id,
    everyMs: EVERY_MS,
    moved,
    async read(signal) {
      const trace = await wholeTrace(api, id, signal);
      isOver.current = OPEN.every((state) => (trace.answer.counts[state] ?? 0) === 0);
      return trace;
    },
  });
}

/** States that may become another one by themselves. */
const OPEN = ['pending', 'not_heard', 'failing', 'away', 'refused'];

async function wholeTrace(api: App['api'], id: string, signal: AbortSignal): Promise<Trace> {
  const path = `/trace/${encodeURIComponent(id)}`;
  const answer = await api.get<TraceAnswer>(path, { limit: PAGE }, signal);
  const clients = [...answer.clients];
  let { next } = answer;
  for (let page = 1; next !== null && page < PAGES; page++) {
    const more: TraceAnswer = await api.get<TraceAnswer>(path, { limit: PAGE, after: next }, signal);
    clients.push(...more.clients);
    next = more.next;
  }
  return { answer, clients, isCut: next !== null };
}
