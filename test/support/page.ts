import { type Answer, request } from './http.js';

/** What a browser and the live page of a server add to a request that changes something. */
export function pageHeaders(serverUrl: string): Record<string, string> {
  return { origin: serverUrl, 'x-sync-ui': '1', 'content-type': 'application/json' };
}

/** Signs in to the live page as it does itself. */
export function signIn(serverUrl: string, token: string, headers: Record<string, string> = {}): Promise<Answer> {
  return request(`${serverUrl}/ui/session`, {
    method: 'POST',
    headers: { ...pageHeaders(serverUrl), ...headers },
    body: JSON.stringify({ token }),
  });
}

/** The header with the cookie that an answer has set. Throws if it has set none. */
export function cookieOf({ headers, text }: Answer): { cookie: string } {
  const [pair = ''] = (headers.get('set-cookie') ?? '').split(';');
  if (!/^(?:__Host-)?policysync=[\w-]+$/.test(pair)) throw new Error(`no cookie was set: ${text}`);
  return { cookie: pair };
}
