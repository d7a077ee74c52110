import type * as z from 'zod';
import { SyncError } from '../lib/errors.js';
import { MANY_JSON_VALUES, parseJson } from '../lib/json.js';
import { jsonOrUndefined } from '../lib/json-text.js';
import { redactUrl } from '../lib/log.js';
import { shortAnswer } from '../lib/problem-text.js';
import { serverAddress } from '../lib/server-address.js';
import { type ClientsAnswer, type ClientView, clientsAnswer } from '../wire/clients.js';
import { askServer } from './server-fetch.js';
import type { Target } from './server-target.js';

/** All clients of a server. */
export interface AllClients {
  readonly answer: ClientsAnswer;
  /** The same with members that this program does not know. */
  readonly raw: { readonly clients: readonly unknown[] };
}

/** Reads all pages of `GET /clients` as one response. */
export async function allClients({ url, token }: Target, env: NodeJS.ProcessEnv): Promise<AllClients> {
  const clients: ClientView[] = [];
  const rawClients: unknown[] = [];
  for (let query: URLSearchParams | undefined; ; ) {
    const { text } = await askServer(
      { url: serverAddress(url, '/clients', query), token },
      { code: 'server_refused' },
      env,
    );
    const { next, ...answer } = parsedAnswer(clientsAnswer, text, url);
    const { next: _, ...raw } = parseJson(text, { values: MANY_JSON_VALUES }) as { clients: unknown[]; next?: unknown };
    clients.push(...answer.clients);
    rawClients.push(...raw.clients);
    if (next == null || answer.clients.length === 0)
      return { answer: { ...answer, clients }, raw: { ...raw, clients: rawClients } };
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
