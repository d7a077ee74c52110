import type { SourceView } from '../../wire/clients.js';
import type { PolicySourceStatus } from './source.js';

/** The policy source as answers show it; `none` where no source is configured. */
export function viewOfSource(status: PolicySourceStatus | undefined): SourceView {
  if (status === undefined) return { state: 'none' };
  const { state, fetching, head, wanted, doubted, refused, error, code, failingSinceMs, warnings } = status;
  return {
    state,
    ...(fetching !== undefined && { fetching }),
    head: head ?? null,
    ...(wanted !== undefined && wanted !== head && { wanted }),
    ...(doubted !== undefined && { doubted }),
    ...(refused !== undefined && { refused }),
    error: error ?? null,
    ...(code !== undefined && { code }),
    ...(failingSinceMs !== undefined && { failing_since: new Date(failingSinceMs).toISOString() }),
    ...(warnings.length > 0 && { warnings: [...warnings] }),
  };
}
