import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { gitRepo } from '../support/git-repo.js';
import { installedPackage } from '../support/installed-package.js';
import { repoRoot } from '../support/repo.js';
import { following } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

const exec = promisify(execFile);
const TSC = join(repoRoot(), 'node_modules', 'typescript', 'bin', 'tsc');
/** Longest time of one command; compiling is the longest. */
const TIMEOUT_MS = 300_000;

const POLICY = 'package app.rbac\ndefault allow := false\nallow if data.users[input.user].admin\n';

/** An application as a user writes it. */
const DECIDE = `import { createClient } from 'policysync';
import { policyGuard as forExpress } from 'policysync/express';
import { policyGuard as forFastify } from 'policysync/fastify';

const [serverUrl] = process.argv.slice(2);
const client = createClient({ engine: 'embedded', serverUrl });
await client.start();
const decisions = await client.decideMany('app/rbac/allow', [{ user: 'ann' }, { user: 'bob' }], { waitMs: 120_000 });
const ports = process.getActiveResourcesInfo().filter((kind) => kind === 'TCPServerWrap').length;
await client.stop();
const guards = [forExpress, forFastify].map((guard) => typeof guard);
console.log(JSON.stringify({ guards, ports, decisions: decisions.map(({ allowed, policy }) => ({ allowed, policy })) }));
`;

const TYPES = `import { createClient, type Decision } from 'policysync';
import { policyGuard as forExpress } from 'policysync/express';
import { policyGuard as forFastify } from 'policysync/fastify';
import express, { type Request, type Response, Router } from 'express';
import { fastify } from 'fastify';

interface Allowed {
  readonly allow: boolean;
  readonly reason: string;
}
const client = createClient({ engine: 'embedded', clientToken: 'secret' }, { decisions: { onUnavailable: 'last' } });
export async function start(): Promise<string> {
  const at: { url: string; port: number } | undefined = await client.start();
  const { url } = await createClient({ port: 0 }).start();
  return at?.url ?? url;
}
export async function ask(): Promise<string> {
  const decision: Decision<Allowed> = await client.decide<Allowed>('app/rbac', { user: 'ann' });
  switch (decision.kind) {
    case 'result':
      return decision.result.reason;
    case 'undefined':
      return 'no rule';
    case 'unavailable':
      return decision.error.code;
  }
}
const app = fastify();
app.register(forFastify, { client, path: 'app/http', user: (request) => request.headers['x-user'] });
app.get('/', { config: { policy: false } }, async (request) => request.decision?.id);

const site = express();
// The types of the route stay, whatever the guard is given.
site.get('/documents/:id', forExpress({ client, path: 'app/http', decide: { onUnavailable: 'deny' } }), (request, response) => {
  const id: string = request.params.id;
  const decision: Decision | undefined = request.decision;
  response.json({ id, decision: decision?.id });
  // @ts-expect-error the route has no such parameter
  request.params.other;
});
const typed = forExpress<Request, Response>({
  client,
  path: 'app/http',
  user: (request) => request.get('x-user'),
  respond: ({ status, body }, request, response) => response.status(status).json({ ...body, at: request.ip }),
});
site.get('/documents/:id', typed, ({ params }) => void params.id.length);
site.get('/documents/:id', forExpress<Request<{ id: string }>>({ client, path: 'x', input: ({ params }) => params.id }));
const router = Router();
router.post<object, { ok: boolean }, { text: string }>('/', forExpress({ client, path: 'x' }), (request, response) => {
  response.json({ ok: request.body.text === '' });
  // @ts-expect-error no such answer
  response.json({ no: 1 });
});
site.use('/t', forExpress({ client, path: 'x', user: ({ headers }) => headers['x-user'], caseSensitive: true }), router);
// @ts-expect-error numbers are no requests
forExpress<number>({ client, path: 'x' });
// @ts-expect-error a path is needed
forExpress({ client });
// @ts-expect-error there is no such engine
createClient({ engine: 'other' });
// @ts-expect-error there is no such setting
createClient({ serverURL: 'http://localhost' });
`;

describe('an application that has the package, Fastify and Express', () => {
  let dir: TempDir;

  before(async () => {
    dir = await tempDir();
    const modules = join(dir.path, 'node_modules');
    await mkdir(modules);
    await symlink(join(installedPackage().project, 'node_modules', 'policysync'), join(modules, 'policysync'));
    for (const name of ['fastify', 'express', '@types']) {
      await symlink(join(repoRoot(), 'node_modules', name), join(modules, name));
    }
    await writeFile(join(dir.path, 'package.json'), '{"type":"module"}');
  });

  after(() => dir[Symbol.asyncDispose]());

  /** Runs Node without any other program, and with no cache of ours. */
  const node = (...args: string[]) =>
    exec(process.execPath, args, { cwd: dir.path, env: { PATH: '', HOME: dir.path }, timeout: TIMEOUT_MS });

  it('decides with the embedded engine, and has both middlewares', async () => {
    await using repo = await gitRepo();
    const policy = await repo.commit({ 'rbac.rego': POLICY, 'data.json': '{"users":{"ann":{"admin":true}}}' });
    await using server = await startServer(following(repo));
    await writeFile(join(dir.path, 'decide.mjs'), DECIDE);
    const { stdout, stderr } = await node('decide.mjs', server.url);
    assert.equal(stderr, '', 'without a logger it is silent');
    assert.deepEqual(JSON.parse(stdout), {
      guards: ['function', 'function'],
      ports: 0,
      decisions: [
        { allowed: true, policy },
        { allowed: false, policy },
      ],
    });
  });

  it('compiles against their types in a strict project', async () => {
    await writeFile(join(dir.path, 'use.ts'), TYPES);
    const compilerOptions = {
      ...{ strict: true, module: 'nodenext', target: 'es2023', types: ['node'], noEmit: true, skipLibCheck: true },
      typeRoots: [join(repoRoot(), 'node_modules', '@types')],
    };
    await writeFile(join(dir.path, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
    await node(TSC, '-p', '.').catch((error: Error & { stdout?: string }) => {
      assert.fail(`it does not compile:\n${error.stdout}`);
    });
  });
});
