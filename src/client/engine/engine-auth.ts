import type { Secret } from '../../lib/log.js';

/** How we identify ourselves to the engine, call by call. */
export interface EngineAuth {
  /** Value of `Authorization` for the next call; undefined: none. Rejects with `engine_auth_failed` where it can't be had. */
  authorization(signal: AbortSignal): Promise<string | undefined>;
  /** The engine answered 401 to this value: true when the next one will be another, so that one more try makes sense. */
  renew(refused: string | undefined): boolean;
  /** Ends what it has open. */
  close(): Promise<void>;
}

/** The same credentials for ever: none, or a token that is sent as Bearer (opal-protocol P6.2). */
export function fixedAuth(token?: Secret): EngineAuth {
  return {
    authorization: async () => (token === undefined ? undefined : `Bearer ${token.reveal()}`),
    renew: () => false,
    close: async () => undefined,
  };
}
