import type { Logger } from '../../../lib/observe/log.js';
import type { ClientSettings } from '../../options.js';
import { type AcquiredOpa, acquireOpa } from './acquire-opa.js';
import { type AcquireProgress, describeProgress, progressPrinter } from './acquire-progress.js';

/** The OPA program of an inline engine, possibly still being acquired. */
export interface OpaSearch {
  /** Rejects with `engine_not_found`, or `config_invalid` for a configured path. */
  readonly found: Promise<AcquiredOpa>;
  /** Undefined until it is found. */
  version(): string | undefined;
  /** Progress as text; undefined once it is found. */
  getting(): string | undefined;
  /** Why the ways that were tried so far did not lead to one. */
  readonly failures: readonly string[];
}

/** Dependencies of {@link searchOpa}. */
export interface OpaSearchDeps {
  readonly log: Logger;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/**
 * Starts to search for the OPA program; `allowDownload`: and to download it, with progress in the
 * log.
 */
export function searchOpa(
  settings: Pick<ClientSettings, 'inlineEngineExecPath'>,
  { allowDownload }: { allowDownload: boolean },
  { log, env, signal }: OpaSearchDeps,
): OpaSearch {
  const print = progressPrinter({ write: (text) => log.info({}, text.trim()) });
  let getting: string | undefined = 'OPA is looked for';
  let version: string | undefined;
  const failures: string[] = [];
  const onProgress = (progress: AcquireProgress): void => {
    getting = describeProgress(progress);
    if (progress.phase === 'failed') failures.push(progress.message);
    if (allowDownload) print(progress);
  };
  const search = { execPath: settings.inlineEngineExecPath, env, allowDownload, signal, onProgress };
  const found = acquireOpa(search).then((opa) => {
    getting = undefined;
    version = opa.version;
    log.info({ path: opa.path, version: opa.version, origin: opa.origin }, 'OPA found');
    return opa;
  });
  found.catch(() => undefined); // whoever awaits it reports the failure
  return { found, version: () => version, getting: () => getting, failures };
}
