import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import { test } from 'node:test';
import type { CommandResult } from '../support/command.js';
import { request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { runHere } from '../support/run-here.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

const ENTRY = ['-t', 'policy_data', '--dst-path', '/users'];

function publish(
  url: string,
  args: readonly string[],
  more: { env?: Record<string, string>; input?: string } = {},
): Promise<CommandResult> {
  return runHere('policysync', ['publish', ...args], { SYNC_SERVER_URL: url, ...more.env }, more.input);
}

/** A server that answers every request in the same way and keeps what it was sent. */
async function startFake(status: number, body: string, headers: Record<string, string> = {}) {
  const received: { headers: IncomingMessage['headers']; url: string | undefined; body: string }[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    received.push({ headers: request.headers, url: request.url, body: await readText(request) });
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  });
  return { ...(await listening(server)), received };
}

test('publishes an entry and says what, why, where it stands and that it worked', async () => {
  await using server = await startServer();
  const { code, stdout, stderr } = await publish(server.url, [
    ...['--src-url', 'http://data.example/users?key=hush', ...ENTRY, '--reason', 'role changed', '--id', 'u1'],
    ...['--src-config', '{"headers":{"Authorization":"Bearer hush"}}'],
  ]);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /PUT \/users from http:\/\/data\.example\/users\S*, topics policy_data/);
  assert.match(stdout, /Reason: role changed/);
  assert.match(stdout, /Published successfully as update u1, seq 1\.\nNo client that is connected .* policy_data\./);
  assert.doesNotMatch(stdout + stderr, /hush/);
  const { text } = await request(`${server.url}/data/config`);
  assert.match(text, /"headers":\{"Authorization":"Bearer hush"\}/);
});

test('passes inline data on as written, and entries of a file or of standard input', async () => {
  await using server = await startServer();
  const inline = await publish(server.url, [
    '--data',
    ' {"n": 12345678901234567890} ',
    '-t',
    'a,b',
    '--dst-path',
    '/n',
  ]);
  assert.match(inline.stdout, /PUT \/n from inline data \(27 bytes\), topics a, b\n/);
  const entries =
    '[{"url":"","topics":["a"],"dst_path":"/m","data":[1.0]},{"url":"","topics":["a"],"dst_path":"/n","save_method":"DELETE"}]';
  const file = await publish(server.url, ['--entries-file', '-'], { input: entries });
  assert.equal(file.code, 0, file.stderr);
  assert.match(file.stdout, /DELETE \/n, topics a/);
  const { text } = await request(`${server.url}/data/config`, { headers: { 'x-sync-protocol': '1' } });
  assert.match(text, /"data":\[1\.0\]/);
  const removed = await publish(server.url, ['--save-method', 'DELETE', '-t', 'a', '--dst-path', '/m']);
  assert.equal(removed.code, 0, removed.stderr);
});

test('takes data of a file, on the topic of everyone unless told otherwise', async () => {
  await using server = await startServer();
  await using folder = await tempDir();
  await writeFile(`${folder.path}/users.json`, '{"n": 12345678901234567890}');
  for (const data of [`@${folder.path}/users.json`, '@-']) {
    const { code, stdout, stderr } = await publish(server.url, ['--data', data, '--dst-path', '/n'], {
      input: '{"n": 12345678901234567891}',
    });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /PUT \/n from inline data \(27 bytes\), topics policy_data/);
  }
  const { text } = await request(`${server.url}/data/config`, { headers: { 'x-sync-protocol': '1' } });
  assert.match(text, /"data":\{"n": 12345678901234567891\}/);
});

test('says whether somebody is concerned, with and without --wait', async () => {
  await using server = await startServer();
  const args = ['--data', '1', ...ENTRY];
  assert.match((await publish(server.url, args)).stdout, /\nNo client that is connected subscribes to policy_data\./);
  const nobody = /No client is concerned: none that is connected subscribes to policy_data\./;
  const waited = await publish(server.url, [...args, '--wait']);
  assert.equal(waited.code, 0, waited.stderr);
  assert.match(waited.stdout, nobody);
  assert.match(waited.stdout, /Applied by 0 clients: no client is concerned/);
  await using peer = await startPeer(server.url);
  await peer.call('subscribe', { topics: ['policy_data'] });
  assert.match((await publish(server.url, args)).stdout, /; 1 subscriber is connected for these topics now\.\n$/);
});

test('sends the token and understands the answer of an OPAL server', async () => {
  await using fake = await startFake(200, '{"status":"ok"}');
  const args = ['--src-url', 'http://x', ...ENTRY, '--server-route', 'other/route', '--server-url', `${fake.url}/`];
  const result = await publish('http://127.0.0.1:1', args, { env: { OPAL_CLIENT_TOKEN: 'tok' } });
  assert.equal(result.code, 0, result.stderr);
  assert.match(result.stdout, /Published successfully\.\n$/);
  assert.equal(fake.received[0]?.headers.authorization, 'Bearer tok');
  assert.equal(fake.received[0]?.url, '/other/route');
  assert.deepEqual(JSON.parse(fake.received[0]?.body ?? ''), {
    entries: [{ url: 'http://x', topics: ['policy_data'], dst_path: '/users', save_method: 'PUT' }],
    reason: '',
  });
});

test('repeated with the same key, as a 503 asks for, an update is published once', async () => {
  await using server = await startServer();
  const args = ['--data', '1', ...ENTRY, '--idempotency-key', 'deploy 7'];
  for (const { stdout, code } of [await publish(server.url, args), await publish(server.url, args)]) {
    assert.equal(code, 0);
    assert.match(stdout, /Published successfully as update \w+, seq 1\./);
  }
  const other = await publish(server.url, ['--data', '2', ...ENTRY, '--idempotency-key', 'deploy 7']);
  assert.equal(other.code, 1);
  assert.match(other.stderr, /another update was published with this Idempotency-Key/);
});

test('every failure is a sentence and exit code 1', async () => {
  const nobody = await startFake(200, '');
  await nobody[Symbol.asyncDispose]();
  const unreachable = await publish(nobody.url, ['--src-url', 'http://x', ...ENTRY]);
  assert.equal(unreachable.code, 1);
  assert.match(
    unreachable.stderr,
    new RegExp(`not published: no answer from http://127.0.0.1:${nobody.port}.*ECONNREFUSED`),
  );

  for (const [status, body, message] of [
    [
      422,
      '{"detail":[{"loc":["body","entries",0,"url"],"msg":"must be a URL","type":"x"}]}',
      /answered 422: body\.entries\.0\.url: must be a URL/,
    ],
    [401, '{"detail":{"error":"token expired"}}', /answered 401: token expired/],
    [503, '{"detail":"later"}', /answered 503: later/],
    [500, '<html>oops</html>', /answered 500: <html>oops/],
    [200, '<html>welcome</html>', /answered 200, but not as a sync server does/],
    [307, '', /answered 307: an empty response/],
  ] as const) {
    await using fake = await startFake(status, body);
    const { code, stderr, stdout } = await publish(fake.url, ['--src-url', 'http://x', ...ENTRY]);
    assert.equal(code, 1, body);
    assert.match(stderr, message);
    assert.doesNotMatch(stdout, /success/);
  }
});

test('a wrong call ends with 2 before anything is sent', async () => {
  await using fake = await startFake(200, '{"status":"ok"}');
  for (const [args, message] of [
    [ENTRY, /give the data to publish/],
    [['--src-url', 'http://x', '--data', '1', ...ENTRY], /give --src-url or --data, not both/],
    [['--data', '@/no/such/file', ...ENTRY], /--data: \/no\/such\/file cannot be read: it does not exist/],
    [['--data', '@/dev/null', ...ENTRY], /--data: \/dev\/null is not JSON/],
    [['--src-url', 'http://x', '-t', 'a'], /--dst-path/],
    [['--data', '{', ...ENTRY], /--data is not JSON/],
    [
      ['--src-url', 'http://x', '--src-config', '{"headers":{"a":1}}', ...ENTRY],
      /--src-config is not valid: headers\.a/,
    ],
    [['--src-url', 'http://x', '--save-method', 'POST', ...ENTRY], /Allowed choices are PUT, PATCH, DELETE/],
    [['--entries-file', '/no/such/file'], /--entries-file: \/no\/such\/file cannot be read/],
    [['--entries-file', '-', '-t', 'a'], /cannot be combined with --topic/],
    [['--entries-file', '-'], /entries\.0\.url/],
    [['--src-url', 'http://x', ...ENTRY, '--server-url', 'localhost'], /--server-url must start with http/],
  ] as const) {
    const { code, stderr } = await publish(fake.url, args, { input: '[{"url":5,"topics":["a"],"dst_path":"/a"}]' });
    assert.equal(code, 2, `${args.join(' ')}: ${stderr}`);
    assert.match(stderr, message);
  }
  assert.equal(fake.received.length, 0);
});

test('a redirect is no success: nothing was published, and nothing is sent elsewhere', async () => {
  await using target = await startFake(200, '{"entries":[]}');
  for (const status of [301, 307]) {
    await using server = await startFake(status, '', { location: `${target.url}/data/config` });
    const { code, stdout, stderr } = await publish(server.url, ['--src-url', 'http://data.example/', ...ENTRY]);
    assert.equal(code, 1);
    assert.doesNotMatch(stdout, /success/);
    assert.match(stderr, new RegExp(`not published: the server answered ${status}`));
  }
  assert.deepEqual(target.received, []);
});
