import type { ReadonlySignal } from '@preact/signals';
import type { FleetAnswer } from '../../src/fleet-rules/answer.js';
import type { Api } from './api';
import type { Route, Router } from './router';
import type { Session } from './session';
import type { StreamState } from './stream/connection';
import type { FleetStore } from './stream/store';

/**
 * What every page gets. Data flows one way: the stream fills the store, pages read signals of the
 * store and of `now`, and change nothing but the address (`router`), or ask the server (`api`).
 *
 * A page is a component `(props: PageProps)` in `pages/<page>/index.tsx`, listed in
 * `pages/table.ts`. It begins with an `<h1 tabIndex={-1}>`, which gets the focus when the page
 * opens. Widths come as a style object (`style={{ width: '50%' }}`), which Preact sets through the
 * CSSOM; a style text, or an attribute in markup, would break the content security policy.
 */
export interface App {
  /** The fleet as the stream tells it. */
  readonly store: FleetStore;
  /** How the stream stands. While it is `lost`, what the store has is how it was at `store.at`. */
  readonly stream: ReadonlySignal<StreamState>;
  /** Tries at once to get a lost stream back. */
  readonly reconnect: () => void;
  /** Whether everyone is on the new policy, as a sentence. */
  readonly answer: ReadonlySignal<FleetAnswer>;
  /** What the stream does not have. */
  readonly api: Api;
  readonly router: Router;
  readonly session: Session;
  /** The time of the server in milliseconds, anew each second while the tab is seen. */
  readonly now: ReadonlySignal<number>;
  /** The time of the server in milliseconds, at once: for a stopwatch. */
  readonly time: () => number;
  /** Whether keys without a modifier do anything outside of what has the focus. */
  readonly areKeysOn: ReadonlySignal<boolean>;
  /** Reads a sentence out to those who listen to the page; also the feedback of "Link copied". */
  say(text: string): void;
}

export interface PageProps {
  readonly app: App;
  readonly id: string | undefined;
  readonly query: Route['query'];
}
