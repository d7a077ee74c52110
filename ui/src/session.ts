import { type ReadonlySignal, signal } from '@preact/signals';
import type { UiSession } from '../../src/wire/fleet.js';
import { type Api, ApiError } from './api.js';

/** Who looks. */
export type SessionState =
  | { readonly kind: 'asking' }
  | { readonly kind: 'in'; readonly session: UiSession }
  | { readonly kind: 'out'; readonly why: 'new' | 'expired' | 'left' }
  /** The server does not say. */
  | { readonly kind: 'unknown'; readonly error: ApiError };

export interface Session {
  readonly state: ReadonlySignal<SessionState>;
  /** What the server is part of, as it says; undefined: it has not said. */
  readonly environment: ReadonlySignal<string | undefined>;
  /** The version of the server that the page came from: that of its first answer. */
  readonly version: string | undefined;
  /** Asks the server who is signed in. */
  ask(): Promise<void>;
  /** Exchanges a token for a session. Rejects with an {@link ApiError}. */
  signIn(token: string): Promise<void>;
  signOut(): Promise<void>;
  /** The server says that the session has ended. */
  ended(): void;
}

export function createSession(api: Api): Session {
  const state = signal<SessionState>({ kind: 'asking' });
  const environment = signal<string | undefined>(undefined);
  let version: string | undefined;
  async function ask(): Promise<void> {
    try {
      const session = await api.get<UiSession>('/ui/session');
      environment.value = session.environment;
      version ??= session.version;
      const isIn = session.signed_in || !session.authentication;
      const wasIn = state.value.kind === 'in';
      state.value = isIn ? { kind: 'in', session } : { kind: 'out', why: wasIn ? 'expired' : 'new' };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) state.value = { kind: 'out', why: state.value.kind === 'in' ? 'expired' : 'new' };
      else if (state.value.kind !== 'in') state.value = { kind: 'unknown', error };
    }
  }
  return {
    state,
    environment,
    get version() {
      return version;
    },
    ask,
    async signIn(token) {
      await api.post('/ui/session', { token });
      await ask();
    },
    async signOut() {
      await api.delete('/ui/session');
      state.value = { kind: 'out', why: 'left' };
    },
    ended() {
      if (state.value.kind === 'in') state.value = { kind: 'out', why: 'expired' };
    },
  };
}

/** Whether the present session may act and see values. */
export function mayAct(state: SessionState): boolean {
  return state.kind === 'in' && (!state.session.authentication || state.session.role === 'datasource');
}
