import { type ReadonlySignal, signal } from '@preact/signals';
import { withoutTurns } from '../../../src/fleet-rules/names-of-others.js';
import type { FleetDelta, FleetEnd, FleetSnapshot } from '../../../src/wire/fleet.js';

/** How the stream stands. Times are of the clock of this machine, in milliseconds. */
export type StreamState =
  | { readonly kind: 'stopped' }
  /**
   * No snapshot has arrived yet, or the browser opens the stream again, or has, and nothing came
   * since: what is known is how it was.
   */
  | { readonly kind: 'connecting'; readonly since: number }
  | { readonly kind: 'live'; readonly since: number }
  /** `nextTryAt` is null where the browser decides when it tries again. */
  | {
      readonly kind: 'lost';
      readonly since: number;
      readonly nextTryAt: number | null;
      /** `held`: the server answers, and nothing comes of the stream. */
      readonly why: 'cut' | 'silent' | 'held' | 'unreadable';
    };

/** What of an `EventSource` the stream needs. */
export interface EventStream {
  readonly readyState: number;
  addEventListener(name: string, listener: (event: Event) => void): void;
  close(): void;
}

export interface ConnectionParts {
  /** Opens `GET /ui/events`. It resumes by itself after a break (Last-Event-ID). */
  open(): EventStream;
  onSnapshot(snapshot: FleetSnapshot): void;
  onDelta(delta: FleetDelta): void;
  /** The session has ended: nothing is tried again until {@link Connection.start}. */
  onExpired(): void;
  /**
   * Whether the session still stands; asked when the server refuses the stream. false: it has
   * ended.
   */
  isSignedIn(): Promise<boolean>;
  /**
   * Whether the server answers to something else; asked when nothing comes of the stream. Never
   * rejects.
   */
  answers(): Promise<boolean>;
  now(): number;
  setTimer(callback: () => void, ms: number): unknown;
  clearTimer(timer: unknown): void;
}

export interface Connection {
  readonly state: ReadonlySignal<StreamState>;
  start(): void;
  stop(): void;
  /** Tries at once. */
  retry(): void;
}

/**
 * The server says something at least every 10 seconds: after this time without a word the
 * connection is taken for dead.
 */
const SILENCE_MS = 25_000;
/**
 * The first event comes at once: after this time without one something between holds it back, if
 * the server answers.
 */
const FIRST_MS = 10_000;
/**
 * A stream that has ended is given this long, until the next one is open, before that counts as a
 * cut: a failed try does at once.
 */
const RECONNECT_MS = 5_000;
/** Waits between tries where the browser has given up; the last one stays. */
const RETRY_MS = [1_000, 2_000, 4_000, 8_000] as const;
const CLOSED = 2;

/**
 * The stream of the fleet: opens it, hears when it is cut, silent or at its end, and gets it back.
 */
export function createConnection(parts: ConnectionParts): Connection {
  const state = signal<StreamState>({ kind: 'stopped' });
  let stream: EventStream | undefined;
  let timer: unknown;
  let watch: unknown;
  let tries = 0;
  let hasSnapshot = false;
  let isOpen = false;

  function stop(): void {
    close();
    hasSnapshot = false;
    tries = 0;
    state.value = { kind: 'stopped' };
  }
  function close(): void {
    parts.clearTimer(timer);
    parts.clearTimer(watch);
    stream?.close();
    stream = undefined;
    isOpen = false;
  }
  function connect(): void {
    close();
    const opened = parts.open();
    stream = opened;
    const hear = (name: string, listener: (event: Event) => void): void =>
      opened.addEventListener(name, (event) => {
        if (stream === opened) listener(event);
      });
    if (hasSnapshot) watchSilence();
    else watchFirst(opened);
    hear('open', () => {
      isOpen = true;
      if (!hasSnapshot) return;
      state.value = { kind: 'connecting', since: notLiveSince() };
      watchSilence();
    });
    hear('snapshot', (event) => {
      const snapshot = read<FleetSnapshot>(event, ['at', 'epoch', 'summary', 'clients']);
      if (snapshot === undefined) return unreadable();
      hasSnapshot = true;
      parts.onSnapshot(snapshot);
      live();
    });
    hear('delta', (event) => {
      const delta = read<FleetDelta>(event, ['at']);
      if (delta === undefined) return unreadable();
      parts.onDelta(delta);
      live();
    });
    hear('end', (event) => ended(read<FleetEnd>(event, ['reason'])));
    hear('error', () => failed(opened));
  }
  function live(): void {
    tries = 0;
    if (state.value.kind !== 'live') state.value = { kind: 'live', since: parts.now() };
    watchSilence();
  }
  function watchSilence(): void {
    parts.clearTimer(watch);
    watch = parts.setTimer(() => {
      const { value } = state;
      lose(value.kind === 'lost' && value.why === 'held' ? 'held' : 'silent', null);
      connect();
    }, SILENCE_MS);
  }
  function watchFirst(opened: EventStream): void {
    parts.clearTimer(watch);
    watch = parts.setTimer(() => {
      watchSilence();
      void parts.answers().then((answers) => {
        if (answers && stream === opened && !hasSnapshot) lose('held', null);
      });
    }, FIRST_MS);
  }
  function lose(why: (StreamState & { kind: 'lost' })['why'], nextTryAt: number | null): void {
    state.value = { kind: 'lost', since: notLiveSince(), nextTryAt, why };
  }
  function notLiveSince(): number {
    const { value } = state;
    return value.kind === 'connecting' || value.kind === 'lost' ? value.since : parts.now();
  }
  function unreadable(): void {
    close();
    lose('unreadable', null);
  }
  function ended(end: FleetEnd | undefined): void {
    if (end?.reason === 'expired') {
      stop();
      parts.onExpired();
      return;
    }
    reopens();
  }
  /** The browser connects again by itself; that it takes a moment is no failure. */
  function reopens(): void {
    if (state.value.kind === 'live') state.value = { kind: 'connecting', since: parts.now() };
    parts.clearTimer(watch);
    watch = parts.setTimer(() => {
      lose('cut', null);
      watchSilence();
    }, RECONNECT_MS);
  }
  function failed(opened: EventStream): void {
    if (opened.readyState === CLOSED) {
      void refused().catch(later);
      return;
    }
    if (isOpen) {
      isOpen = false;
      reopens();
      return;
    }
    lose('cut', null);
    watchSilence();
  }
  /** The server answers with something else than a stream, or the browser has given up. */
  async function refused(): Promise<void> {
    const asked = stream;
    close();
    lose('cut', null);
    const isSignedIn = await parts.isSignedIn();
    if (stream !== undefined || state.value.kind !== 'lost' || asked === undefined) return;
    if (isSignedIn) return later();
    stop();
    parts.onExpired();
  }
  function later(): void {
    if (state.value.kind !== 'lost') return;
    const waitMs = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)] ?? 8_000;
    tries++;
    lose('cut', parts.now() + waitMs);
    timer = parts.setTimer(connect, waitMs);
  }
  return {
    state,
    stop,
    start() {
      stop();
      state.value = { kind: 'connecting', since: parts.now() };
      connect();
    },
    retry() {
      if (state.value.kind === 'lost') connect();
    },
  };
}

/** The data of an event; undefined where it is not an object with these members. */
function read<T>(event: Event, members: readonly (keyof T & string)[]): T | undefined {
  if (!('data' in event) || typeof event.data !== 'string') return undefined;
  try {
    const value: unknown = JSON.parse(withoutTurns(event.data));
    if (typeof value !== 'object' || value === null) return undefined;
    return members.every((member) => member in value) ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
