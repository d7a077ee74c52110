import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { gitRepo } from '../support/git-repo.js';
import { installedPackage } from '../support/installed-package.js';
import { freePort } from '../support/opa.js';
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

const [serverUrl, engineUrl] = process.argv.slice(2);
const client = createClient({ engine: 'embedded', serverUrl, engineUrl, port: 0 });
await client.start();
const decisions = await client.decideMany('app/rbac/allow', [{ user: 'ann' }, { user: 'bob' }], { waitMs: 120_000 });
await client.stop();
const guards = [forExpress, forFastify].map((guard) => typeof guard);
console.log(JSON.stringify({ guards, decisions: decisions.map(({ allowed, policy }) => ({ allowed, policy })) }));
`;

const TYPES = `import { createClient, type Decision } from 'policysync';
import { policyGuard as forExpress } from 'policysync/express';
import { policyGuard as forFastify } from 'policysync/fastify';
import { fastify } from 'fastify';

interface Allowed {
  readonly allow: boolean;
  readonly reason: string;
}
const client = createClient({ engine: 'embedded', clientToken: 'secret' }, { decisions: { onUnavailable: 'last' } });
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
export const handler = forExpress({ client, path: 'app/http', decide: { onUnavailable: 'deny' } });
// @ts-expect-error there is no such engine
createClient({ engine: 'other' });
// @ts-expect-error there is no such setting
createClient({ serverURL: 'http://localhost' });
`;

describe('an application that has the package and Fastify', () => {
  let dir: TempDir;

  before(async () => {
    dir = await tempDir();
    const modules = join(dir.path, 'node_modules');
    await mkdir(modules);
    await symlink(join(installedPackage().project, 'node_modules', 'policysync'), join(modules, 'policysync'));
    await symlink(join(repoRoot(), 'node_modules', 'fastify'), join(modules, 'fastify'));
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
    const { stdout, stderr } = await node('decide.mjs', server.url, `http://127.0.0.1:${await freePort()}`);
    assert.equal(stderr, '', 'without a logger it is silent');
    assert.deepEqual(JSON.parse(stdout), {
      guards: ['function', 'function'],
      decisions: [
        { allowed: true, policy },
        { allowed: false, policy },
      ],
    });
  });

  it('compiles against their types in a strict project without Express', async () => {
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
