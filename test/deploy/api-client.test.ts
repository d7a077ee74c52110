import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';
import { withKeys } from '../support/auth.js';
import { clientGenerator, pythonClientGenerator } from '../support/deploy-programs.js';
import { request } from '../support/http.js';
import { repoRoot } from '../support/repo.js';
import { onPath } from '../support/server-programs.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

const run = promisify(execFile);
const found = await clientGenerator();
const skip = 'missing' in found ? found.missing : false;
const python = await pythonClientGenerator();
const skipPython = 'missing' in python ? python.missing : false;

/** A program by the types of the generator: prints what a server and a client answer. */
const PROGRAM = `
import createClient from 'openapi-fetch';
import type { paths as ServerPaths } from './server.js';
import type { paths as ClientPaths } from './client.js';
declare const process: { readonly argv: string[] };
declare const console: { log(text: string): void };

const [, , serverUrl = '', clientUrl = ''] = process.argv;
const server = createClient<ServerPaths>({ baseUrl: serverUrl });
const client = createClient<ClientPaths>({ baseUrl: clientUrl });
const entry = { url: '', dst_path: '/users', topics: ['policy_data'], data: { alice: true } };
const published = await server.POST('/data/config', {
  body: { entries: [entry] },
  params: { query: { wait: 'applied', timeout: '20s' } },
});
const seq: number | undefined = published.data?.seq;
const listed = await server.GET('/clients', { params: { query: { limit: 10 } } });
const names: string[] | undefined = listed.data?.clients.map(({ client_id }) => client_id);
const callbacks = await client.GET('/callbacks');
const urls: string[] | undefined = callbacks.data?.map(({ url }) => url);
const refused = await server.POST('/data/config', { body: { entries: [] } });
const has = refused.error !== undefined && 'detail' in refused.error;
console.log(JSON.stringify([published.response.status, seq, names, urls?.length, refused.response.status, has]));
`;
const PROJECT = {
  compilerOptions: {
    strict: true,
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2023', 'dom'],
    types: [],
    rootDir: '.',
  },
  files: ['program.ts'],
};

it('a client that openapi-typescript makes of both documents compiles, and gets typed answers', { skip }, async () => {
  assert('path' in found);
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, engine: 'embedded', env: { SYNC_CLIENT_ID: 'c' } });
  await using dir = await tempDir();
  const modules = join(found.path, 'node_modules');
  await symlink(modules, join(dir.path, 'node_modules'));
  await writeFile(join(dir.path, 'package.json'), '{"type":"module"}');
  await writeFile(join(dir.path, 'program.ts'), PROGRAM);
  await writeFile(join(dir.path, 'tsconfig.json'), JSON.stringify(PROJECT));
  const node = async (...args: string[]): Promise<string> =>
    (await run(process.execPath, args, { cwd: dir.path })).stdout;
  const generator = join(modules, 'openapi-typescript', 'bin', 'cli.js');
  for (const [name, { url }] of Object.entries({ server, client })) {
    const file = join(dir.path, `${name}.json`);
    await writeFile(file, (await request(`${url}/openapi.json`)).text);
    await node(generator, file, '--output', join(dir.path, `${name}.d.ts`));
  }
  // Also with authentication on, where operations ask for a token.
  await using guarded = await startServer(await withKeys());
  await writeFile(join(dir.path, 'guarded.json'), (await request(`${guarded.url}/openapi.json`)).text);
  await node(generator, join(dir.path, 'guarded.json'), '--output', join(dir.path, 'guarded.d.ts'));
  await node(join(repoRoot(), 'node_modules', 'typescript', 'bin', 'tsc'), '--project', '.', '--skipLibCheck', 'false');
  const answers: unknown = JSON.parse(await node('program.js', server.url, client.url));
  assert.deepEqual(answers, [200, 1, ['c'], 1, 422, true]);
});

/** The same in Python, with each answer read into the classes of the generator. */
const PYTHON_PROGRAM = `
import json, sys
from client.api.callbacks import get_callbacks
from client.client import Client as ClientApi
from server.api.data import post_data_config
from server.api.statistics import get_clients
from server.client import AuthenticatedClient, Client
from server.models import PostDataConfigBody, PostDataConfigResponse200

server_url, client_url, guarded_url = sys.argv[1:]
server, client = Client(base_url=server_url), ClientApi(base_url=client_url)
entry = {"url": "", "dst_path": "/users", "topics": ["policy_data"], "data": {"alice": True}}
body = PostDataConfigBody.from_dict({"entries": [entry]})
published = post_data_config.sync(client=server, body=body, wait="applied", timeout="20s")
assert isinstance(published, PostDataConfigResponse200), published
listed = get_clients.sync(client=server, limit=10)
callbacks = get_callbacks.sync(client=client)
refused = post_data_config.sync_detailed(client=server, body=PostDataConfigBody.from_dict({"entries": []}))
strange = get_clients.sync_detailed(client=AuthenticatedClient(base_url=guarded_url, token="none"))
print(json.dumps([
    published.seq, [one.client_id for one in listed.clients], len(callbacks),
    refused.status_code, refused.parsed.to_dict()["detail"][0]["loc"], strange.status_code, list(strange.parsed.to_dict()),
]))
`;
/** What the generator cannot do: files that are no API. */
const FILES = /^WARNING parsing GET \/(?:ui\/assets\/\{file\} within live_page|docs\/\{part\} within documentation)\.$/;

it('a client that openapi-python-client makes of both documents gets typed answers', { skip: skipPython }, async () => {
  assert('path' in python);
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, engine: 'embedded', env: { SYNC_CLIENT_ID: 'c' } });
  await using guarded = await startServer(await withKeys());
  await using dir = await tempDir();
  const env = { PATH: process.env.PATH, HOME: dir.path, PYTHONPATH: `${python.path}:${dir.path}` };
  const program = onPath('python3') ?? 'python3';
  await writeFile(join(dir.path, 'config.json'), '{"post_hooks": []}');
  const generate = async (name: string, url: string): Promise<void> => {
    const document = join(dir.path, `${name}.json`);
    await writeFile(document, (await request(`${url}/openapi.json`)).text);
    const places = [
      '--path',
      document,
      '--output-path',
      join(dir.path, name),
      '--config',
      join(dir.path, 'config.json'),
    ];
    const args = ['-m', 'openapi_python_client', 'generate', ...places, '--meta', 'none'];
    const { stdout, stderr } = await run(program, args, { cwd: dir.path, env });
    const warnings = (stdout + stderr).split('\n').filter((line) => line.startsWith('WARNING'));
    assert.deepEqual(
      warnings.filter((line) => !FILES.test(line)),
      [],
    );
  };
  await generate('server', server.url);
  await generate('client', client.url);
  await writeFile(join(dir.path, 'program.py'), PYTHON_PROGRAM);
  const { stdout } = await run(program, ['program.py', server.url, client.url, guarded.url], { cwd: dir.path, env });
  const answers: unknown = JSON.parse(stdout);
  assert.deepEqual(answers, [1, ['c'], 1, 422, ['body', 'entries'], 401, ['detail']]);
});
