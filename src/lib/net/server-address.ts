import { withoutEnd } from '../run/without-end.js';
import { decoded } from './http-response.js';

/**
 * The address of `path` at a server whose URL may have a path and a query of its own: the query
 * stays behind the path.
 */
export function serverAddress(serverUrl: string, path: string, query?: URLSearchParams): string {
  const [base = '', ...queries] = serverUrl.split('?');
  const own = queries.join('?'); // a later ? belongs to the query
  const parts = [own, query?.toString()].filter((part) => part !== undefined && part !== '');
  return `${withoutEnd(base, '/')}${path}${parts.length === 0 ? '' : `?${parts.join('&')}`}`;
}

/** Shortest text that is hidden as a secret: hiding shorter ones would make the rest unreadable. */
const SECRET_LENGTH = 4;

/**
 * The secrets of a URL, longest first: user, password and query, escaped as written and decoded.
 */
export function secretsOfUrl(url: string): string[] {
  if (!URL.canParse(url)) return [];
  const { username, password, search, searchParams } = new URL(url);
  const given = [username, password, search.slice(1), ...searchParams.values()];
  return [...new Set([...given, ...given.map(decoded)])]
    .filter((text) => text.length >= SECRET_LENGTH)
    .sort((a, b) => b.length - a.length);
}
