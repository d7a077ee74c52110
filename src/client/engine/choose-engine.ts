import { type EngineKindSettings, selectEngine } from './engine-kind.js';
import { type OpaSearch, type OpaSearchDeps, searchOpa } from './get-opa/opa-search.js';

/** The engine of a client, chosen once at its start. */
export type EngineChoice =
  | { readonly kind: 'inline'; readonly opa: OpaSearch; readonly missing?: undefined }
  | { readonly kind: 'external'; readonly missing?: undefined }
  | {
      readonly kind: 'embedded';
      /** Why there is no OPA program on this machine, if that decides. */
      readonly missing?: string;
    };

/**
 * Chooses the engine: the one of the settings; otherwise inline if there is an OPA program on this
 * machine, else embedded. Rejects with `config_invalid` if settings contradict each other. Waits
 * for the search only if its outcome decides.
 */
export async function chooseEngine(settings: EngineKindSettings, deps: OpaSearchDeps): Promise<EngineChoice> {
  const selected = selectEngine(settings);
  if (selected !== undefined && selected.kind !== 'inline') return { kind: selected.kind };
  const opa = searchOpa(settings, { allowDownload: settings.engine === 'inline' }, deps);
  if (selected !== undefined) return { kind: 'inline', opa };
  try {
    await opa.found;
    return { kind: 'inline', opa };
  } catch {
    deps.signal.throwIfAborted();
    return { kind: 'embedded', missing: opa.failures.join('; ') }; // the reasons of the error, one by one
  }
}
