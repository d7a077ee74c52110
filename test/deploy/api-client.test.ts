import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';
import { withKeys } from '../support/auth.js';
import { clientGenerator } from '../support/deploy-programs.js';
import { request } from '../support/http.js';
import { repoRoot } from '../support/repo.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

const run = promisify(execFile);
const found = await clientGenerator();
const skip = 'missing' in found ? found.missing : false;

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
