import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { following, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';

/** What a policy may reach by `http.send` in an engine inside the client: what a data source may be, and nothing else. */

const REGO = `package app

import rego.v1

answer := http.send({"method": input.method, "url": input.url, "headers": input.headers, "raise_error": false, "force_json_decode": true, "enable_redirect": true})
`;

test('http.send of an embedded engine goes through the gate of all requests to addresses that a peer names', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'app.rego': REGO });
  await using server = await startServer(following(repo));
  await using open = await startDataSource();
  await using closed = await startDataSource();
  open.serve('/open', { n: 1 });
  closed.serve('/closed', { n: 2 });
  await using away = await listening(
    createServer((_request, response) => response.writeHead(302, { location: `${closed.url}/closed` }).end()),
  );
  const { host: deny } = new URL(closed.url);
  await using client = await startClient({
    serverUrl: server.url,
    engine: 'embedded',
    env: { SYNC_EMBEDDED_ENGINE_HTTP_SEND: 'true', SYNC_FETCH_DENY: deny },
  });
  await client.healthy();
  const send = (url: string, method = 'GET', headers: Record<string, string> = {}): Promise<unknown> =>
    client.query('/app/answer', { url, method, headers });

  const sent = await send(`${open.url}/open`);
  assert.deepEqual(field(sent, 'body'), { n: 1 }, JSON.stringify(sent));
  const engine = new URL(client.engineUrl).port;
  for (const [url, reason, method, headers] of [
    [`http://127.0.0.1:${engine}/v1/data`, /it is the policy engine of this client/],
    [`http://localhost:${engine}/v1/data`, /it is the policy engine of this client/],
    [`http://[::ffff:127.0.0.1]:${engine}/v1/data`, /it is the policy engine of this client/],
    [`${client.url}/healthy`, /it is the API of this client/],
    [`${closed.url}/closed`, /SYNC_FETCH_DENY has/],
    ['http://169.254.169.254/latest/meta-data', /only SYNC_FETCH_ALLOW opens/],
    [`${open.url}/open`, /PUT is not sent/, 'PUT'],
    // Another Host has OPA ask for a TLS setting, too.
    [`${open.url}/open`, /are not available in the embedded engine/, 'GET', { Host: `127.0.0.1:${engine}` }],
    [away.url, /SYNC_FETCH_DENY has/],
  ] as const) {
    const answer = await send(url, method, headers);
    assert.equal(field(answer, 'status_code'), 0, url);
    assert.match(String(field(answer, 'error', 'message')), reason);
  }
  assert.equal(closed.count(), 0);
  assert.equal(open.count('/open'), 1);
});

test('without the setting a policy that calls http.send is refused, with file and line', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'app.rego': REGO });
  await using server = await startServer(following(repo));
  await using client = await startClient({ serverUrl: server.url, engine: 'embedded' });
  const { json } = await client.tells(
    'the policy is refused',
    (health) => field(health, 'policy', 'error', 'file') === 'app.rego',
  );
  const error = field(json, 'policy', 'error');
  assert.equal(field(error, 'line'), 5);
  assert.match(String(field(error, 'message')), /SYNC_EMBEDDED_ENGINE_HTTP_SEND/);
});
