import type * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import { MANY_JSON_VALUES, parseJson } from '../../lib/json/json.js';
import { jsonOrUndefined } from '../../lib/json/json-text.js';
import { serverAddress } from '../../lib/net/server-address.js';
import { redactUrl } from '../../lib/observe/log.js';
import { shortAnswer } from '../../lib/observe/problem-text.js';
import { askServer } from './server-fetch.js';
import type { ServerTarget } from './server-target.js';

/** A response with a list of clients, of which the server sends a page at a time. */
interface Page {
  readonly clients: readonly unknown[];
  readonly next?: string | null | undefined;
}

/** Reads all pages as one response; `raw` includes members that this program does not know. */
export async function readAllPages<T extends Page>(
  schema: z.ZodType<T>,
  path: string,
  { url, token }: ServerTarget,
  env: NodeJS.ProcessEnv,
): Promise<{ readonly answer: T; readonly raw: { readonly clients: readonly unknown[] } }> {
  const clients: unknown[] = [];
  const rawClients: unknown[] = [];
  for (let query: URLSearchParams | undefined; ; ) {
    const request = { url: serverAddress(url, path, query), token };
    const { text } = await askServer(request, { code: 'server_refused' }, env);
    const answer = parsedAnswer(schema, text, url);
    const { next: _, ...raw } = parseJson(text, { values: MANY_JSON_VALUES }) as { clients: unknown[]; next?: unknown };
    clients.push(...answer.clients);
    rawClients.push(...raw.clients);
    const { next = null } = answer;
    if (next === null || answer.clients.length === 0)
      return { answer: { ...answer, next: null, clients }, raw: { ...raw, clients: rawClients } };
    query = new URLSearchParams({ after: next });
  }
}

/** Parses a response; rejects one of another shape with `server_refused`. */
export function parsedAnswer<S extends z.ZodType>(schema: S, text: string, url: string): z.infer<S> {
  try {
    return schema.parse(parseJson(text, { values: MANY_JSON_VALUES }));
  } catch (cause) {
    const message = `${redactUrl(url)} answers, but not as a sync server does: ${shortAnswer(text)}`;
    throw new SyncError('server_refused', message, { cause: isJson(text) ? cause : undefined });
  }
}

/** Of another text its start says more than what a parser says of it. */
function isJson(text: string): boolean {
  return jsonOrUndefined(text) !== undefined;
}
