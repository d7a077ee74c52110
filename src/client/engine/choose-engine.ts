import { type EngineKind, type EngineKindSettings, selectEngine } from './engine-kind.js';
import { type OpaSearch, type OpaSearchDeps, searchOpa } from './opa-search.js';

/** The engine of a client, chosen once at its start. */
export interface EngineChoice {
  readonly kind: EngineKind;
  /** The OPA program of an inline engine. */
  readonly opa: OpaSearch | undefined;
}

/** Chooses the engine of the settings. Throws `config_invalid` if settings contradict each other. */
export function chooseEngine(settings: EngineKindSettings, deps: OpaSearchDeps): EngineChoice {
  const { kind } = selectEngine(settings) ?? { kind: 'inline' };
  return { kind, opa: kind === 'inline' ? searchOpa(settings, { allowDownload: true }, deps) : undefined };
}
