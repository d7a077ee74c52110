import type { Logger } from '../lib/observe/log.js';
import type { DecisionDefaults } from './decisions/decision.js';
import type { EngineRest } from './engine/engine-kind.js';
import type { FetchProvider } from './fetch/provider.js';
import type { LookUp } from './outbound/own-places.js';

/** What a client is made with, beside its settings. Each part may be left out. */
export interface ClientDeps {
  readonly log: Logger;
  /** Environment for proxies, programs and folders. Default: that of the process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /**
   * More providers, beside the built-in ones and those of SYNC_FETCH_PROVIDER_MODULES; closed with
   * the client.
   */
  readonly fetchProviders?: readonly FetchProvider[];
  /** Resolves the host names of updates. Default: the system's resolver. */
  readonly lookUp?: LookUp;
  /** How {@link Client.decide} works where a call does not say otherwise. */
  readonly decisions?: DecisionDefaults;
  /** Has an embedded engine listen for OPA's REST API, too. Default: it opens no port. */
  readonly rest?: EngineRest;
}
