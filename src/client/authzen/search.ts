import { hash } from 'node:crypto';
import { parseJson } from '../../lib/json/json.js';
import type { JsonText } from '../../lib/json/json-text.js';
import type { Found } from './answer.js';
import { badRequest, inputOf, type SearchKind, type SearchRequest } from './request.js';

/** A Search API Response (section 8.3). */
export interface SearchResponse {
  readonly page?: { readonly next_token: string; readonly count: number; readonly total: number };
  readonly context?: JsonText;
  readonly results: readonly JsonText[];
}

const TOKEN = /^(0|[1-9]\d{0,14})\.(\d{0,15})\.([0-9a-f]{32})$/;

/** Which part of what is found a request asks for. */
export interface RequestedPage {
  readonly start: number;
  /** Undefined: as many as a response may have. */
  readonly limit: number | undefined;
}

/**
 * The part that a request asks for. With a token it is that of the token, and its limit need not be
 * sent again. Throws a 400 for a token that is not one, or of another request.
 */
export function partOf(kind: SearchKind, request: SearchRequest): RequestedPage {
  const { token = '', limit } = request.page ?? {};
  if (token === '') return { start: 0, limit };
  const [, start, before = '', asked] =
    TOKEN.exec(Buffer.from(token.slice(0, 100), 'base64url').toString('latin1')) ?? [];
  if (start === undefined) throw badRequest('page.token: is not a next_token of a response');
  const first = before === '' ? undefined : Number(before);
  if (asked !== digestOf(kind, request) || (limit !== undefined && limit !== first)) {
    throw badRequest('page.token: belongs to another request; all members but the token must stay the same');
  }
  return { start: Number(start), limit: first };
}

/**
 * The page of what was found that the request asks for; without a `page` where it asks for none and
 * everything fits.
 */
export function pageOf(
  { kind, part, maxResults }: { kind: SearchKind; part: RequestedPage; maxResults: number },
  request: SearchRequest,
  found: Found,
): SearchResponse {
  const { start } = part;
  const limit = Math.min(part.limit ?? maxResults, maxResults);
  const results = found.results.slice(start, start + limit);
  const total = found.results.length;
  const end = Math.min(start + limit, total);
  const isWhole = request.page === undefined && end === total;
  const next = Buffer.from(`${end}.${part.limit ?? ''}.${digestOf(kind, request)}`, 'latin1').toString('base64url');
  return {
    ...(!isWhole && { page: { next_token: end >= total ? '' : next, count: results.length, total } }),
    ...(found.context !== undefined && { context: found.context }),
    results,
  };
}

/**
 * What makes two requests the same: not white space and the order of members, which may differ from
 * one sending to the next.
 */
function digestOf(kind: SearchKind, request: SearchRequest): string {
  const input = inOrder(parseJson(inputOf(request)));
  return hash('sha256', JSON.stringify([kind, input]), 'hex').slice(0, 32);
}

/**
 * The value with the members of each object in one order. Its depth is bounded: the request was
 * checked.
 */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return { members: entries.map(([name, member]) => [name, inOrder(member)]) };
}
