/**
 * Whether the client follows the sync server: specification "Client server-connectivity" as a function, without I/O.
 * `starting` is "(start)" of that table: the time until it is known whether a backup can be served.
 */
export type ConnectivityState = 'starting' | 'connected' | 'disconnected';

/** What happens to it. `engine_restarted`: the engine came back and held nothing of ours. */
export type ConnectivityEvent = 'start' | 'enable' | 'disable' | 'engine_restarted';

/** What decides between the rows of one state and event. */
export interface ConnectivityConditions {
  /** SYNC_OFFLINE_MODE_ENABLED. */
  readonly offlineMode: boolean;
  /** SYNC_DEFAULT_SYNC_SERVER_CONNECTIVITY_DISABLED. */
  readonly disconnectDefault: boolean;
  /** A valid backup was loaded into the engine. */
  readonly backupLoaded: boolean;
}

/** What has to be done, in order, for the next state to be true. */
export type ConnectivityEffect =
  /** Say that the client was to start disconnected, and why it does not. */
  | 'warn_connecting'
  /** Start the updaters and the subscriptions. What they ask for first is a delta where a backup was loaded. */
  | 'start_following'
  /** The same, but with the complete bundle. */
  | 'rehydrate'
  | 'stop_following'
  | 'save_backup'
  /** Ask the server again for policies and data. */
  | 'refetch'
  /** Put the backup into the engine, unless the client still holds what the engine had. */
  | 'load_backup';

/** The answer to a caller; the HTTP route has the words. */
export type ConnectivityAnswer =
  | 'enabled'
  | 'already_enabled'
  | 'disabled'
  | 'already_disabled'
  | 'offline_mode_off'
  | 'starting';

/** One row of the table. `answer` is there for the events that somebody asked for. */
export interface ConnectivityOutcome {
  readonly next: ConnectivityState;
  readonly effects: readonly ConnectivityEffect[];
  readonly answer?: ConnectivityAnswer;
}

type Row = (conditions: ConnectivityConditions) => ConnectivityOutcome;

const stay = (next: ConnectivityState): Row => {
  return () => ({ next, effects: [] });
};

/** A switch that needs offline mode (specification connectivity.needs-offline-mode; opal-protocol P2.6). */
const asked = (state: ConnectivityState, outcome: ConnectivityOutcome): Row => {
  return ({ offlineMode }) => (offlineMode ? outcome : { next: state, effects: [], answer: 'offline_mode_off' });
};

const TABLE: Record<ConnectivityState, Record<ConnectivityEvent, Row>> = {
  starting: {
    start: ({ offlineMode, disconnectDefault, backupLoaded }) => {
      if (!disconnectDefault) return { next: 'connected', effects: ['start_following'] };
      if (offlineMode && backupLoaded) return { next: 'disconnected', effects: [] };
      return { next: 'connected', effects: ['warn_connecting', 'start_following'] };
    },
    enable: asked('starting', { next: 'starting', effects: [], answer: 'starting' }),
    disable: asked('starting', { next: 'starting', effects: [], answer: 'starting' }),
    engine_restarted: stay('starting'),
  },
  connected: {
    start: stay('connected'),
    enable: asked('connected', { next: 'connected', effects: [], answer: 'already_enabled' }),
    disable: asked('connected', {
      next: 'disconnected',
      effects: ['stop_following', 'save_backup'],
      answer: 'disabled',
    }),
    engine_restarted: () => ({ next: 'connected', effects: ['refetch'] }),
  },
  disconnected: {
    start: stay('disconnected'),
    enable: asked('disconnected', { next: 'connected', effects: ['rehydrate'], answer: 'enabled' }),
    disable: asked('disconnected', { next: 'disconnected', effects: [], answer: 'already_disabled' }),
    engine_restarted: ({ offlineMode }) => ({ next: 'disconnected', effects: offlineMode ? ['load_backup'] : [] }),
  },
};

/** The row of the table for a state, an event and the conditions of this moment. */
export function transition(
  state: ConnectivityState,
  event: ConnectivityEvent,
  conditions: ConnectivityConditions,
): ConnectivityOutcome {
  return TABLE[state][event](conditions);
}
