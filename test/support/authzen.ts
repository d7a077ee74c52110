import { readFile } from 'node:fs/promises';
import { Agent, fetch, type RequestInit } from 'undici';
import type { TestAuthority } from './certificates.js';
import { type GitRepo, gitRepo } from './git-repo.js';
import { type Answer, field, parsed } from './http.js';
import { startOpa, type TestOpa } from './opa.js';
import { following, type StartedClient, startClient } from './start-client.js';
import { type StartedServer, startServer } from './start-server.js';
import { requestBy } from './tls-request.js';
import { patience } from './until.js';

/** The engines that AuthZEN is tested with. */
export const ENGINES = ['inline', 'external', 'embedded'] as const;
export type EngineName = (typeof ENGINES)[number];

/** Settings that offer everything, by the rules of the scenarios. */
export const ALL_OFFERED = {
  SYNC_AUTHZEN_DECISION: 'authzen/allow',
  SYNC_AUTHZEN_SEARCH_SUBJECT: 'authzen/subjects',
  SYNC_AUTHZEN_SEARCH_RESOURCE: 'authzen/resources',
  SYNC_AUTHZEN_SEARCH_ACTION: 'authzen/actions',
} as const;

/** A PDP: a real server, a client with TLS, an engine, and a policy repository. `await using` ends all of it. */
export interface StartedPdp extends AsyncDisposable {
  /** `https://localhost:<port>`. */
  readonly url: string;
  readonly client: StartedClient;
  /** The external engine; undefined for another kind. */
  readonly opa: TestOpa | undefined;
  /** Commits files and waits until the client has them. */
  use(files: Readonly<Record<string, string>>): Promise<void>;
  /** Sends a body; a text as it is. `headers` replaces the content type, too. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  get(path: string): Promise<Answer>;
}

/** Starts a PDP with one kind of engine. */
export async function startPdp(
  kind: EngineName,
  authority: TestAuthority,
  env: Readonly<Record<string, string>> = ALL_OFFERED,
): Promise<StartedPdp> {
  const parts: AsyncDisposable[] = [];
  const own = async <T extends AsyncDisposable>(starting: Promise<T>): Promise<T> => {
    const part = await starting;
    parts.unshift(part);
    return part;
  };
  const dispose = async (): Promise<void> => {
    for (const part of parts) await part[Symbol.asyncDispose]();
  };
  try {
    const repo: GitRepo = await own(gitRepo());
    await repo.commit({ 'empty.rego': 'package empty\n' });
    const server: StartedServer = await own(startServer(following(repo)));
    const opa = kind === 'external' ? await own(startOpa()) : undefined;
    const pair = await authority.issue(`pdp-${kind}`);
    const client = await own(
      startClient({
        serverUrl: server.url,
        ...(opa !== undefined && { engineUrl: opa.url }),
        ...(kind === 'embedded' && { engine: kind }),
        ask: requestBy({ ca: authority.file }),
        env: { SYNC_CLIENT_API_TLS_CERT_FILE: pair.cert, SYNC_CLIENT_API_TLS_KEY_FILE: pair.key, ...env },
      }),
    );
    await client.healthy();
    const agent = new Agent({ connect: { ca: await readFile(authority.file) } });
    await own(Promise.resolve({ [Symbol.asyncDispose]: () => agent.destroy() }));
    return { ...pdpAt(client, agent), opa, use: (files) => use(repo, client, files), [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function use(repo: GitRepo, client: StartedClient, files: Readonly<Record<string, string>>): Promise<void> {
  const hash = await repo.commit({ ...files });
  await client.tells(`the client has ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

/** How a PEP asks a client. */
function pdpAt(client: StartedClient, dispatcher: Agent): Pick<StartedPdp, 'url' | 'client' | 'post' | 'get'> {
  // Our certificates are good for the address, too; a name shows that the configuration has what was asked for.
  const url = client.url.replace('127.0.0.1', 'localhost');
  const send = async (path: string, init: Pick<RequestInit, 'method' | 'body' | 'headers'>): Promise<Answer> => {
    const response = await fetch(`${url}${path}`, {
      ...init,
      dispatcher,
      signal: AbortSignal.timeout(20_000 * patience()),
    });
    const text = await response.text();
    return { status: response.status, headers: new Headers([...response.headers]), text, json: parsed(text) };
  };
  return {
    url,
    client,
    post: (path, body, headers = {}) =>
      send(path, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        headers: { 'content-type': 'application/json', ...headers },
      }),
    get: (path) => send(path, { method: 'GET' }),
  };
}
