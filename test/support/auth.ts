import { generateKeyPairSync } from 'node:crypto';
import { postJson } from './http.js';

/** The master token of the servers that {@link withKeys} makes. */
export const MASTER_TOKEN = 'the-master-token-of-the-test';

/** A new pair of keys as PEM text. */
export function keyPair(): { publicKey: string; privateKey: string } {
  return generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
}

let usual: ReturnType<typeof keyPair> | undefined;

function usualPair(): ReturnType<typeof keyPair> {
  usual ??= keyPair();
  return usual;
}

/** Server settings that turn authentication on. Default: the same pair each time, since one takes a while to make. */
export function withKeys(pair?: ReturnType<typeof keyPair>): Record<string, string> {
  const { publicKey, privateKey } = pair ?? usualPair();
  return {
    SYNC_AUTH_PUBLIC_KEY: publicKey,
    SYNC_AUTH_PRIVATE_KEY: privateKey,
    SYNC_AUTH_MASTER_TOKEN: MASTER_TOKEN,
  };
}

/** A token of the server; `asked` is the body of the request. */
export async function tokenOf(serverUrl: string, asked: object = {}): Promise<string> {
  const answer = await postJson(`${serverUrl}/token`, asked, { authorization: `Bearer ${MASTER_TOKEN}` });
  if (answer.status !== 200) throw new Error(`no token: ${answer.status} ${answer.text}`);
  return (answer.json as { token: string }).token;
}

/** The header that presents a token. */
export function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` };
}
