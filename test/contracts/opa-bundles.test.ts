import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { checkArchive } from '../../src/server/policy/source/archive.js';
import { bundleLocation } from '../../src/server/policy/source/bundle-api-config.js';
import { createBundleSource } from '../../src/server/policy/source/bundle-api-source.js';
import { type BundleVerification, bundleVerification } from '../../src/server/policy/source/bundle-signature.js';
import { type CraftedEntry, TEST_LIMITS, tarGz } from '../support/archive.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { gitRepoAt, runGit } from '../support/git-repo.js';
import { testOpa } from '../support/opa.js';
import { followSource, type PolicyPart } from '../support/policy-part.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

/** Bundles as OPA itself makes them. */

const NUMBERS =
  '{"b": 1.0, "a": {"é<": [1e2, 10.50, "x\\u2028\\u003c"]}, "\\ud83d\\ude00": 1, "\uffee": {}, "b": 2.50}';
const FILES = {
  'app.rego': 'package app.x\n\nallow := data.roles.b\n',
  'roles/data.json': NUMBERS,
  '.manifest': '{"roots": ["app", "roles"], "revision": "r1", "rego_version": 1, "file_rego_versions": {}}',
};
const EC = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const SECRET = 'a-secret-of-sufficient-length-0123456789';

let dir: TempDir;
let program: string;
/** What `opa sign` wrote for {@link FILES}. */
let signatures: { ec: string; secret: string };
/** Archives of `opa build`. */
let built: { plain: Buffer; signed: Buffer };

function pemOf(key: KeyObject): string {
  return key.export({ type: 'spki', format: 'pem' }).toString();
}

function verifying(given: Record<string, unknown> = {}): BundleVerification {
  const found = bundleVerification({
    policyBundleVerificationKey: new Secret(pemOf(EC.publicKey)),
    policyBundleVerificationAlgorithm: 'ES256',
    policyBundleVerificationScope: 'prod',
    ...given,
  });
  assert(found !== undefined);
  return found;
}

async function check(bytes: Buffer, verification?: BundleVerification): Promise<number> {
  const file = join(dir.path, 'archive.tar.gz');
  await writeFile(file, bytes);
  return await checkArchive(file, TEST_LIMITS, AbortSignal.timeout(60_000), verification);
}

/** An archive of {@link FILES} with other entries. */
function archive(signed: string | undefined, changes: Record<string, string | undefined> = {}): Promise<Buffer> {
  const files = { ...FILES, '.signatures.json': signed, ...changes };
  return tarGz(
    Object.entries(files).flatMap(([name, content]): CraftedEntry[] =>
      content === undefined ? [] : [{ name, content }],
    ),
  );
}

async function followed(bytes: Buffer, verification?: BundleVerification): Promise<PolicyPart> {
  const server = await bundleHttpServer();
  await server.put(bytes);
  const location = bundleLocation({
    policyBundleUrl: server.url,
    policyBundleServerType: 'HTTP',
    policyBundleServerAwsRegion: '',
  });
  const repoPath = join(dir.path, `repo-${Math.random()}`);
  const options = { ...TEST_LIMITS, location, repoPath, limitBytes: 1024 * 1024, fetchTimeoutMs: 60_000, verification };
  const part = followSource(
    createBundleSource({ ...options, env: { PATH: process.env.PATH } }, { log: silentLogger() }),
  );
  await part.serves();
  await server[Symbol.asyncDispose]();
  return part;
}

describe('archives that opa build, opa sign and git archive make', () => {
  before(async () => {
    dir = await tempDir();
    program = await testOpa();
    const folder = join(dir.path, 'bundle');
    for (const [path, text] of Object.entries(FILES)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
    const pem = join(dir.path, 'key.pem');
    await writeFile(pem, EC.privateKey.export({ type: 'sec1', format: 'pem' }));
    const claims = join(dir.path, 'claims.json');
    await writeFile(claims, '{"scope": "prod"}');
    const opa = (cwd: string, ...args: string[]) => promisify(execFile)(program, args, { cwd });
    const key = (alg: string, signing: string): string[] => ['--signing-alg', alg, '--signing-key', signing];
    await opa(dir.path, 'build', '-b', 'bundle', '-o', 'plain.tar.gz');
    await opa(dir.path, 'build', '-b', 'bundle', '-o', 'signed.tar.gz', ...key('ES256', pem), '--claims-file', claims);
    built = {
      plain: await readFile(join(dir.path, 'plain.tar.gz')),
      signed: await readFile(join(dir.path, 'signed.tar.gz')),
    };
    const sign = async (...args: string[]): Promise<string> => {
      await opa(folder, 'sign', '-b', '.', '-o', dir.path, ...args);
      return await readFile(join(dir.path, '.signatures.json'), 'utf8');
    };
    signatures = {
      secret: await sign(...key('HS256', SECRET)),
      ec: await sign(...key('ES256', pem), '--claims-file', claims),
    };
  });
  after(async () => await dir[Symbol.asyncDispose]());

  test('what `opa build` makes is served: its names begin with a slash, and its manifest gives no order', async () => {
    for (const which of ['plain', 'signed'] as const) {
      await using part = await followed(built[which]);
      const { manifest, data_modules, policy_modules } = await part.bundle();
      assert.deepEqual(manifest, ['data.json', 'bundle/app.rego'], which);
      assert.deepEqual(
        data_modules.map(({ path }) => path),
        ['.'],
      );
      assert.equal(policy_modules[0]?.package_name, 'app.x');
      assert.deepEqual(part.tracker.status().warnings, [], 'the manifest of OPA is no list of paths');
    }
  });

  test('a signature is no part of the commit: equal content that is signed again is no change', async () => {
    await using one = await followed(await archive(signatures.ec));
    await using other = await followed(await archive(signatures.secret));
    await using none = await followed(await archive(undefined));
    assert.equal(one.tracker.head(), other.tracker.head());
    assert.equal(one.tracker.head(), none.tracker.head());
  });

  test('what `opa build` and `opa sign` have signed is verified, by its value where it is JSON', async () => {
    assert.equal(await check(built.signed, verifying()), 4);
    assert.equal(await check(await archive(signatures.ec), verifying()), 4);
    const reordered = NUMBERS.replace('"b": 1.0, ', '').replace('"b": 2.50}', '\n"b":\t2.50 }');
    assert.equal(await check(await archive(signatures.ec, { 'roles/data.json': reordered }), verifying()), 4);
    const bySecret = {
      policyBundleVerificationKey: new Secret(SECRET),
      policyBundleVerificationAlgorithm: 'HS256',
      policyBundleVerificationScope: '',
    };
    assert.equal(await check(await archive(signatures.secret), verifying(bySecret)), 4);
    await using part = await followed(built.signed, verifying());
    assert.deepEqual((await part.bundle()).manifest, ['data.json', 'bundle/app.rego']);
  });

  test('YAML is verified by its value, as OPA signs it; what cannot be read is refused with what to do', async () => {
    const folder = join(dir.path, 'yaml');
    const data =
      'a: 1.0\nb: [1e3, 0x10, yes, "é<", ~, 2001-01-01, -0.5]\n1: {true: x}\nbase: &x {n: 7}\nuse: *x\nt: |\n  lines\n';
    const files = { 'app.rego': 'package app.x\n', 'y/data.yaml': data, 'z/data.yml': '{"a": 1.0, "b": 1e2}\n' };
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
    const run = (...args: string[]) => promisify(execFile)(program, args, { cwd: folder });
    const signed = async (more: Record<string, string> = {}): Promise<string> => {
      for (const [path, text] of Object.entries(more)) await writeFile(join(folder, path), text);
      const key = ['--signing-alg', 'HS256', '--signing-key', SECRET];
      await run('sign', '-b', '.', '-o', dir.path, ...key);
      return await readFile(join(dir.path, '.signatures.json'), 'utf8');
    };
    const bySecret = verifying({
      policyBundleVerificationKey: new Secret(SECRET),
      policyBundleVerificationAlgorithm: 'HS256',
      policyBundleVerificationScope: '',
    });
    const packed = (signatures: string, changes: Record<string, string> = {}): Promise<Buffer> =>
      tarGz(
        Object.entries({ ...files, '.signatures.json': signatures, ...changes }).map(([name, content]) => ({
          name,
          content,
        })),
      );
    const good = await signed();
    assert.equal(await check(await packed(good), bySecret), 4);
    const same = { 'y/data.yaml': `# the same value\n${data.replace('[1e3', '[1000')}` };
    assert.equal(await check(await packed(good, same), bySecret), 4);
    const refusals: [string, RegExp][] = [
      [data.replace('yes', 'no'), /"y\/data\.yaml" is not what was signed/],
      ['a: [', /"y\/data\.yaml" is YAML that is not verified \(.*\): make it data\.json/],
      [
        `a: ${'x'.repeat(300_000)}`,
        /"y\/data\.yaml" is YAML of more than 262144 bytes, which is not verified: make it/,
      ],
    ];
    for (const [text, message] of refusals)
      await assert.rejects(check(await packed(good, { 'y/data.yaml': text }), bySecret), { message });
    const long = { 'y/data.yaml': 'n: 12345678901234567890\n' };
    const message = /is not what was signed, or YAML that OPA reads otherwise: make it data\.json/;
    await assert.rejects(check(await packed(await signed(long), long), bySecret), { message });
  });

  test('what is not what was signed is refused with words that fit', async () => {
    const { ec } = signatures;
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const twice = JSON.stringify({ signatures: Array.from({ length: 2 }, () => JSON.parse(ec).signatures[0]) });
    const rows: [string, Buffer, BundleVerification, RegExp][] = [
      [
        'unsigned',
        built.plain,
        verifying(),
        /has no \.signatures\.json, and SYNC_POLICY_BUNDLE_VERIFICATION_KEY is set/,
      ],
      [
        'another number',
        await archive(ec, { 'roles/data.json': NUMBERS.replace('10.50', '10.5') }),
        verifying(),
        /"roles\/data\.json" is not what was signed/,
      ],
      [
        'another module',
        await archive(ec, { 'app.rego': 'package app.x\n\nallow := true\n' }),
        verifying(),
        /"app\.rego" is not what was signed/,
      ],
      [
        'another manifest',
        await archive(ec, { '.manifest': '{"roots":["app"]}' }),
        verifying(),
        /"\.manifest" is not what/,
      ],
      [
        'an unsigned file',
        await archive(ec, { 'more.rego': 'package more\n' }),
        verifying(),
        /"more\.rego" was not signed/,
      ],
      [
        'a missing file',
        await archive(ec, { 'app.rego': undefined }),
        verifying(),
        /"app\.rego" was signed and is missing/,
      ],
      [
        'a broken file',
        await archive(ec, { 'roles/data.json': '{"b":' }),
        verifying(),
        /"roles\/data\.json" is not valid JSON/,
      ],
      ['data as YAML', await archive(ec, { 'data.yaml': 'a: 1' }), verifying(), /"data\.yaml" was not signed/],
      [
        'another key',
        await archive(ec),
        verifying({ policyBundleVerificationKey: new Secret(pemOf(other.publicKey)) }),
        /not made with the key/,
      ],
      ['another algorithm', await archive(signatures.secret), verifying(), /signature is not of ES256/],
      [
        'another scope',
        await archive(ec),
        verifying({ policyBundleVerificationScope: 'test' }),
        /has the scope "prod", and .*_SCOPE is "test"/,
      ],
      ['two signatures', await archive(twice), verifying(), /signature cannot be read/],
      ['noise', await archive('x'), verifying(), /signature cannot be read/],
    ];
    for (const [what, bytes, verification, message] of rows) {
      await assert.rejects(check(bytes, verification), { code: 'bundle_archive_refused', message }, what);
    }
  });

  test('an archive that was taken unsigned is verified once a key is set', async () => {
    await using server = await bundleHttpServer();
    await server.put(built.plain);
    const location = bundleLocation({
      policyBundleUrl: server.url,
      policyBundleServerType: 'HTTP',
      policyBundleServerAwsRegion: '',
    });
    const options = {
      ...TEST_LIMITS,
      location,
      repoPath: join(dir.path, 'kept'),
      limitBytes: 1024 * 1024,
      fetchTimeoutMs: 60_000,
    };
    const source = (verification?: BundleVerification) =>
      createBundleSource({ ...options, verification, env: { PATH: process.env.PATH } }, { log: silentLogger() });
    const { signal } = new AbortController();
    const head = await source().fetch(signal);
    assert.equal(await source().fetch(signal), head);
    await assert.rejects(source(verifying()).fetch(signal), { code: 'bundle_archive_refused' });
  });

  test('a key that cannot verify is refused at the start, and never shown', () => {
    const pem = EC.privateKey.export({ type: 'sec1', format: 'pem' }).toString();
    for (const [key, message] of [
      ['hush-hush', /VERIFICATION_KEY is no PEM/],
      [pem, /VERIFICATION_KEY is a private key/],
      [
        pemOf(generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey),
        /does not fit .*ALGORITHM: it is on the curve/,
      ],
    ] as const) {
      assert.throws(
        () => verifying({ policyBundleVerificationKey: new Secret(key) }),
        ({ code, message: said }: Error & { code: string }) =>
          code === 'config_invalid' &&
          message.test(said) &&
          !said.includes('hush') &&
          !said.includes(pem.slice(40, 60)),
      );
    }
  });

  test('what `git archive` makes is read: it names the commit in a global header', async () => {
    const repo = await gitRepoAt(join(dir.path, 'git'));
    await repo.commit(FILES);
    const file = join(dir.path, 'git.tar.gz');
    await runGit(['-C', join(dir.path, 'git'), 'archive', '--format=tar.gz', '-o', file, 'HEAD']);
    assert.equal(await check(await readFile(file)), 3);
  });

  test('a delta bundle of OPA is refused as such', async () => {
    const bytes = await tarGz([
      { name: '/patch.json', content: '{"data":[]}' },
      { name: '/.manifest', content: '{"revision":"r2","roots":["app"]}' },
    ]);
    await assert.rejects(check(bytes), {
      message: /"patch\.json" makes it a delta bundle of OPA: put a complete one there/,
    });
  });
});
