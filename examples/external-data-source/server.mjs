// An external data source API: tells each sync client which data is its own (see README.md).
//
//   SYNC_AUTH_PUBLIC_KEY=key.pub.pem node examples/external-data-source/server.mjs
import { createPublicKey, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { errors, jwtVerify } from 'jose';

// The same settings as the sync server's: only its tokens are accepted.
const {
  SYNC_AUTH_PUBLIC_KEY: keyOrFile,
  SYNC_AUTH_JWT_ALGORITHM: algorithm = 'RS256',
  SYNC_AUTH_JWT_AUDIENCE: audience = 'https://api.opal.ac/v1/',
  SYNC_AUTH_JWT_ISSUER: issuer = 'https://opal.ac/',
  HOST: host = '127.0.0.1',
  PORT: port = '7010',
} = process.env;
if (keyOrFile === undefined)
  throw new Error('SYNC_AUTH_PUBLIC_KEY: the public key of the sync server (PEM, or a file)');
const publicKey = createPublicKey(existsSync(keyOrFile) ? readFileSync(keyOrFile, 'utf8') : keyOrFile);

/** What the service knows: the users of each tenant. Yours has a database. */
const USERS = {
  acme: { alice: { role: 'admin' }, bob: { role: 'reader' } },
  globex: { carol: { role: 'admin' } },
};

/** The documents ask for this header, which goes with the entries. A real service gives each client its own. */
const documentToken = `Bearer ${randomBytes(24).toString('base64url')}`;

class Unauthorized extends Error {}

/** The claims of the token, once signature, algorithm, audience, issuer and expiry are found right. */
async function claimsOf(token) {
  if (token === null || token === '') throw new Unauthorized('the query parameter "token" was not provided');
  try {
    const { payload } = await jwtVerify(token, publicKey, { algorithms: [algorithm], audience, issuer });
    return payload;
  } catch (error) {
    // The reason is for the log and for whoever calls; the token itself is for neither.
    if (error instanceof errors.JOSEError) throw new Unauthorized(`the token is not valid: ${error.code}`);
    throw error;
  }
}

/** The answer to one client: the entries of its tenant. */
function entriesFor(claims, baseUrl) {
  const { tenant } = claims;
  if (typeof tenant !== 'string') throw new Unauthorized('the token has no claim "tenant"');
  if (!Object.hasOwn(USERS, tenant)) throw new Unauthorized('the claim "tenant" names none that is known here');
  return {
    entries: [
      {
        url: `${baseUrl}/users/${tenant}`,
        config: { headers: { authorization: documentToken } },
        topics: ['policy_data'],
        dst_path: '/users',
      },
    ],
  };
}

async function answer(request, url) {
  if (request.method !== 'GET') return { status: 405, body: { detail: 'only GET' } };
  if (url.pathname === '/data/config') {
    return { status: 200, body: entriesFor(await claimsOf(url.searchParams.get('token')), url.origin) };
  }
  const tenant = /^\/users\/(\w+)$/.exec(url.pathname)?.[1];
  if (tenant === undefined || !Object.hasOwn(USERS, tenant)) return { status: 404, body: { detail: 'not found' } };
  if (request.headers.authorization !== documentToken) throw new Unauthorized('the document asks for its header');
  return { status: 200, body: USERS[tenant] };
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url ?? '/', `http://${request.headers.host ?? host}`);
  const { status, body } = await answer(request, url).catch((error) => {
    if (error instanceof Unauthorized) return { status: 401, body: { detail: error.message } };
    process.stderr.write(`${error.stack}\n`);
    return { status: 500, body: { detail: 'internal error' } };
  });
  // The path without its query: that has the token of a client, which is not for logs.
  process.stdout.write(`${request.method} ${url.pathname} ${status} ${body.detail ?? ''}\n`);
  response.writeHead(status, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
  });
  response.end(JSON.stringify(body));
});
server.listen(Number(port), host, () => {
  process.stdout.write(`external data source at http://${host}:${server.address().port}/data/config\n`);
});
