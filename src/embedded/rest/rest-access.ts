import type { IncomingHttpHeaders } from 'node:http';
import type { RestRoute } from './rest-target.js';

/** Who may ask. */
export interface RestAccess {
  /** Origins whose web pages may ask (`*`: all). */
  readonly origins: readonly string[];
  /** Whether free queries are allowed: they can call any built-in function. */
  readonly freeQueries: boolean;
}

/** Words of a free query that could send a request, or show the configuration. */
const REACHES_OUT = /\b(?:http|net|opa)\b/;
const OTHER_SITES: ReadonlySet<string> = new Set(['cross-site', 'same-site']);

/** Whether a request may be answered: the rules of the inline engine's authorization policy (`client/engine/opa-authz.ts`). */
export function mayAsk(
  route: RestRoute,
  request: { readonly method: string; readonly query: string; readonly headers: IncomingHttpHeaders },
  access: RestAccess,
): boolean {
  if (isForeignPage(request.headers, access.origins)) return false;
  if (route.kind !== 'query' && route.kind !== 'compile') return true;
  if (!access.freeQueries) return false;
  // A page of a name that leads here sends no Origin with a GET.
  return request.method !== 'GET' || !new URLSearchParams(request.query).getAll('q').some((q) => REACHES_OUT.test(q));
}

/** Whether a browser says that a page of another site asks. */
function isForeignPage(headers: IncomingHttpHeaders, origins: readonly string[]): boolean {
  const { origin } = headers;
  const site = headers['sec-fetch-site'];
  if (origin === undefined && site === undefined) return false;
  if (origins.includes('*')) return false;
  if (origin !== undefined) return !origins.includes(origin);
  return String(site)
    .split(',')
    .some((one) => OTHER_SITES.has(one.trim()));
}
