import { readFile } from 'node:fs/promises';
import { Agent, fetch } from 'undici';
import type { Pair } from './certificates.js';
import { type Answer, parsed, type request } from './http.js';
import { patience } from './until.js';

/** How a test identifies itself, and which authority it trusts. */
export interface TlsCaller {
  /** File of the authority. */
  ca?: string;
  /** Own certificate. */
  own?: Pair;
  token?: string;
}

/** `request` of `http.ts` for servers that want TLS or a token. */
export function requestBy({ ca, own, token }: TlsCaller): typeof request {
  return async (url, init = {}): Promise<Answer> => {
    const dispatcher = new Agent({
      connect: {
        ...(ca === undefined ? {} : { ca: await readFile(ca) }),
        ...(own === undefined ? {} : { cert: await readFile(own.cert), key: await readFile(own.key) }),
      },
    });
    try {
      const response = await fetch(url, {
        method: init.method ?? 'GET',
        ...(typeof init.body === 'string' ? { body: init.body } : {}),
        headers: {
          ...(typeof init.body === 'string' ? { 'content-type': 'application/json' } : {}),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...Object.fromEntries(new Headers(init.headers)),
        },
        redirect: 'manual',
        signal: AbortSignal.timeout(10_000 * patience()),
        dispatcher,
      });
      const text = await response.text();
      return { status: response.status, headers: new Headers([...response.headers]), text, json: parsed(text) };
    } finally {
      await dispatcher.destroy();
    }
  };
}
