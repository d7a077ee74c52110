import { randomUUID } from 'node:crypto';
import { SyncError } from '../../lib/errors.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { EngineMarker } from './engine.js';
import type { OpaRest } from './opa-rest.js';

/** The marker document: below `system`, which OPA keeps out of queries over all data. */
export const MARKER_PATH: DocPath = parseDocPath('system/policysync/marker');

/**
 * The document that names this life of this client in the engine (design 9.7). Missing or foreign means that the engine
 * started anew, or that another client fills it.
 */
export class Marker implements EngineMarker {
  readonly #rest: OpaRest;
  readonly #state = randomUUID();

  constructor(rest: OpaRest) {
    this.#rest = rest;
  }

  async isThere(signal: AbortSignal): Promise<boolean> {
    return (await this.#rest.getData(MARKER_PATH, signal)) === this.#text(false);
  }

  begin(signal: AbortSignal): Promise<void> {
    return this.#rest.write([{ op: 'put', path: MARKER_PATH, text: () => this.#text(true) }], signal);
  }

  async complete(signal: AbortSignal): Promise<void> {
    if (await this.#rest.replace(MARKER_PATH, this.#text(false), signal)) return;
    throw new SyncError('engine_unreachable', 'the engine started anew while it was filled', { retryable: true });
  }

  #text(isFilling: boolean): string {
    return JSON.stringify({ client_state: this.#state, ...(isFilling ? { filling: true } : {}) });
  }
}
