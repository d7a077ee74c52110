import type { IncomingHttpHeaders } from 'node:http';
/**
 * The parts of OPA's REST API that a front serves, and the label by which OPA's own metrics know
 * them.
 */
export type RestRoute =
  | { readonly kind: 'data'; readonly api: 'v0' | 'v1'; readonly path: string }
  | { readonly kind: 'main' }
  | { readonly kind: 'query' | 'compile' | 'policies' | 'index' }
  | { readonly kind: 'health'; readonly path: string }
  | { readonly kind: 'metrics'; readonly path: string };

/** Path and query of a request, as sent. */
export interface RestTarget {
  /** Percent-encoded, with a leading slash. */
  readonly path: string;
  /** Without the question mark; empty if there is none. */
  readonly query: string;
}

/**
 * What can follow a prefix, by method. Whatever is not here is served to nobody; there is no way to
 * write.
 */
const TREES: readonly { readonly prefix: string; readonly get?: true; readonly post?: true; readonly to: Finder }[] = [
  { prefix: '/v1/data', get: true, post: true, to: (path) => ({ kind: 'data', api: 'v1', path }) },
  { prefix: '/v0/data', post: true, to: (path) => ({ kind: 'data', api: 'v0', path }) },
  { prefix: '/v1/query', get: true, post: true, to: () => ({ kind: 'query' }) },
  { prefix: '/v1/compile', get: true, post: true, to: () => ({ kind: 'compile' }) },
  { prefix: '/v1/policies', get: true, to: () => ({ kind: 'policies' }) },
  { prefix: '/health', get: true, to: (path) => ({ kind: 'health', path }) },
  { prefix: '/metrics', get: true, to: (path) => ({ kind: 'metrics', path }) },
];

type Finder = (path: string) => RestRoute;

/** Splits a request target (origin form or absolute form); undefined for any other. */
export function restTarget(url: string): RestTarget | undefined {
  const origin = url.startsWith('/') ? '' : (/^https?:\/\/[^/?#]*/i.exec(url)?.[0] ?? undefined);
  if (origin === undefined) return undefined;
  const mark = url.indexOf('?', origin.length);
  const path = url.slice(origin.length, mark === -1 ? undefined : mark);
  return { path: path === '' ? '/' : path, query: mark === -1 ? '' : url.slice(mark + 1) };
}

/**
 * What a method and a path ask for; undefined: nothing that is served. The prefix is compared as it
 * is sent: whoever encodes it asks for nothing. What follows it has its leading slash.
 */
export function restRoute(method: string, path: string): RestRoute | undefined {
  const isGet = method === 'GET';
  if (!isGet && method !== 'POST') return undefined;
  if (path === '/') return { kind: isGet ? 'index' : 'main' };
  for (const { prefix, get, post, to } of TREES) {
    if (!path.startsWith(prefix)) continue;
    const rest = path.slice(prefix.length);
    if (rest !== '' && !rest.startsWith('/')) continue;
    return (isGet ? get : post) === true ? to(rest) : undefined;
  }
  return undefined;
}

/** Whether a path has a percent sign that escapes nothing: no server of Go reads such a request. */
export function hasBrokenEscape(path: string): boolean {
  return path.includes('%') && /%(?![\da-fA-F]{2})/.test(path);
}

/** The target as a URL: bytes beyond ASCII, and `#`, which would begin a fragment, are escaped. */
export function targetUrl({ path, query }: RestTarget): string {
  const url = query === '' ? path : `${path}?${query}`;
  return url.replaceAll(/[#\x80-\xff]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The label `handler` of OPA's metrics. */
export function handlerLabel(route: RestRoute | undefined): string {
  if (route === undefined) return 'authz';
  if (route.kind === 'data') return `${route.api}/data`;
  if (route.kind === 'main' || route.kind === 'index') return 'index';
  return route.kind === 'health' || route.kind === 'metrics' ? route.kind : `v1/${route.kind}`;
}

/** Words of a free query that could send a request, or show the configuration. */
const REACHES_OUT = /\b(?:http|net|opa)\b/;
const OTHER_SITES: ReadonlySet<string> = new Set(['cross-site', 'same-site']);

/**
 * Whether a request may be answered; `origins`: those whose web pages may ask (`*`: all). The rules
 * are those of the inline engine's authorization policy (`client/engine/opa/opa-authz.ts`).
 */
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
