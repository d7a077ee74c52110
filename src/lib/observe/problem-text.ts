import * as z from 'zod';
import { jsonOrUndefined } from '../json/json-text.js';

/** How much of an unknown response is shown. */
const SHOWN_CHARACTERS = 500;
/** Where the title of a page may be. */
const PAGE_CHARACTERS = 4096;

/** The body of an error response, ours or OPAL's. */
const refusal = z.object({
  detail: z.union([
    z.string(),
    z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])), msg: z.string() })),
    z.object({ error: z.string() }),
  ]),
});

/** The message in the body of an error response, as one bounded sentence. */
export function errorBodyText(text: string): string {
  const parsed = refusal.safeParse(jsonOrUndefined(text));
  if (!parsed.success) return shortAnswer(text);
  const { detail } = parsed.data;
  if (typeof detail === 'string') return shortAnswer(detail);
  if ('error' in detail) return shortAnswer(detail.error);
  return shortAnswer(detail.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; '));
}

/** A response for messages, bounded. Of a page of a proxy, the title. */
export function shortAnswer(text: string): string {
  if (text.trim() === '') return 'an empty response';
  const isPage = /^\s{0,20}<(?:!doctype html|html)\b/i.test(text);
  const title = isPage ? /<title>([^<]*)<\/title>/i.exec(text.slice(0, PAGE_CHARACTERS))?.[1]?.trim() : undefined;
  // nginx repeats the status, which every message has.
  if (title) return shortAnswer(title.replace(/\s+/g, ' ').replace(/^\d{3} (?=\S)/, ''));
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text;
}
