import { SyncError } from '../../lib/errors.js';
import type { DecisionRules } from './decision-rules.js';
import type { SearchKind } from './request.js';

/** The SYNC_AUTHZEN_... settings. */
export interface AuthzenSettings {
  /** Undefined: AuthZEN is off. */
  readonly authzenDecision: DecisionRules | undefined;
  readonly authzenSearchSubject: DecisionRules | undefined;
  readonly authzenSearchResource: DecisionRules | undefined;
  readonly authzenSearchAction: DecisionRules | undefined;
  readonly authzenUrl: string | undefined;
  readonly authzenMaxEvaluations: number;
  readonly authzenMaxResults: number;
}

/** What is offered, by the settings. */
export interface AuthzenOffer {
  readonly decision: DecisionRules;
  /** A kind of search that is missing is not offered. */
  readonly searches: ReadonlyMap<SearchKind, DecisionRules>;
  /** Public address of this client; undefined: what the request for the configuration names. */
  readonly url: string | undefined;
  readonly maxEvaluations: number;
  readonly maxResults: number;
}

/**
 * What the settings turn on; undefined: nothing. Throws `config_invalid` where they do not fit
 * together.
 */
export function authzenOffer(settings: AuthzenSettings): AuthzenOffer | undefined {
  const { authzenDecision: decision, authzenUrl: url } = settings;
  const searches = new Map<SearchKind, DecisionRules>();
  for (const [kind, rules] of [
    ['subject', settings.authzenSearchSubject],
    ['resource', settings.authzenSearchResource],
    ['action', settings.authzenSearchAction],
  ] as const) {
    if (rules !== undefined) searches.set(kind, rules);
  }
  if (url !== undefined) assertPublicUrl(url);
  if (decision === undefined) {
    const [kind] = searches.keys();
    if (kind === undefined) return undefined;
    const name = `SYNC_AUTHZEN_SEARCH_${kind.toUpperCase()}`;
    throw new SyncError(
      'config_invalid',
      `${name} is set without SYNC_AUTHZEN_DECISION, which AuthZEN always has: set both`,
    );
  }
  const { authzenMaxEvaluations: maxEvaluations, authzenMaxResults: maxResults } = settings;
  return { decision, searches, url, maxEvaluations, maxResults };
}

function assertPublicUrl(text: string): void {
  const { protocol, username, password, search, hash } = new URL(text);
  const isWeb = protocol === 'https:' || protocol === 'http:';
  if (isWeb && username === '' && password === '' && search === '' && hash === '') return;
  throw new SyncError(
    'config_invalid',
    'SYNC_AUTHZEN_URL must be an https:// (or http://) address without user, query and fragment',
  );
}
