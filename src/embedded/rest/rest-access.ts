import type { IncomingHttpHeaders } from 'node:http';
import type { RestRoute } from './rest-target.js';

/** Words of a free query that could send a request, or show the configuration. */
const REACHES_OUT = /\b(?:http|net|opa)\b/;
const OTHER_SITES: ReadonlySet<string> = new Set(['cross-site', 'same-site']);

/** Whether a request may be answered; `origins`: those whose web pages may ask (`*`: all). The rules are those of the inline engine's authorization policy (`client/engine/opa-authz.ts`). */
export function mayAsk(
  route: RestRoute,
  request: { readonly method: string; readonly query: string; readonly headers: IncomingHttpHeaders },
  origins: readonly string[],
): boolean {
  if (isForeignPage(request.headers, origins)) return false;
  // A page of a name that leads here sends no Origin with a GET.
  if (route.kind !== 'query' || request.method !== 'GET') return true;
  return !new URLSearchParams(request.query).getAll('q').some((q) => REACHES_OUT.test(q));
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
