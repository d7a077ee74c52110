/**
 * Whether the client follows the sync server: specification "Client server-connectivity" as a
 * function, without I/O. `starting` is "(start)" of that table: the time until it is known whether
 * a backup can be served.
 */
export type ConnectivityState = 'starting' | 'connected' | 'disconnected';

/** Events. `engine_restarted`: the engine restarted empty. */
export type ConnectivityEvent = 'start' | 'enable' | 'disable' | 'engine_restarted';

/** The conditions that select the row of a state and event. */
export interface ConnectivityConditions {
  /** SYNC_OFFLINE_MODE_ENABLED. */
  readonly offlineMode: boolean;
  /** SYNC_DEFAULT_SYNC_SERVER_CONNECTIVITY_DISABLED. */
  readonly disconnectDefault: boolean;
  /** A valid backup was loaded into the engine. */
  readonly backupLoaded: boolean;
}

/** The actions of a transition, in order. */
export type ConnectivityEffect =
  /** Warn that the client should start disconnected, and why it does not. */
  | 'warn_connecting'
  /** Start the updaters and the subscriptions. With a loaded backup, they request a delta first. */
  | 'start_following'
  /** The same, but with the complete bundle. */
  | 'rehydrate'
  | 'stop_following'
  | 'save_backup'
  /** Request policies and data from the server again. */
  | 'refetch'
  /** Load the backup into the engine, unless the client still holds the engine's content. */
  | 'load_backup';

/** The result for a caller; the HTTP route has the texts. */
export type ConnectivityAnswer =
  | 'enabled'
  | 'already_enabled'
  | 'disabled'
  | 'already_disabled'
  | 'offline_mode_off'
  | 'starting';

/** One row of the table. `answer` is set for events that a caller requested. */
export interface ConnectivityOutcome {
  readonly next: ConnectivityState;
  readonly effects: readonly ConnectivityEffect[];
  readonly answer?: ConnectivityAnswer;
}

type Row = (conditions: ConnectivityConditions) => ConnectivityOutcome;

const stay = (next: ConnectivityState): Row => {
  return () => ({ next, effects: [] });
};

/**
 * A switch that needs offline mode (specification connectivity.needs-offline-mode; opal-protocol
 * P2.6).
 */
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

/** Returns the outcome of an event in a state under the given conditions. */
export function connectivityTransition(
  state: ConnectivityState,
  event: ConnectivityEvent,
  conditions: ConnectivityConditions,
): ConnectivityOutcome {
  return TABLE[state][event](conditions);
}
