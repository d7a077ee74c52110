import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { regoPackage } from '../../src/wire/rego-package.js';
import { corpusFile, serveHistory } from '../support/corpus.js';
import { runGit } from '../support/git-repo.js';
import { testOpa } from '../support/opa.js';
import { tempDir } from '../support/temp-dir.js';

/** What OPA's parser says of a path: its first term is `data`. */
interface Term {
  readonly value: string;
}

/** The packages as OPA's own parser reads them, all in one go; a module that it cannot parse as Rego v1 is missing. */
async function opaPackages(modules: Record<string, string>): Promise<Map<string, string[]>> {
  const query = '{file: path | raw := input[file]; path := rego.parse_module(file, raw)["package"].path}';
  const answer = await opaJson(['eval', '--v1-compatible', '--stdin-input', '--format=json', query], modules);
  const { result } = answer as { result?: { expressions: { value: Record<string, Term[]> }[] }[] };
  const value = result?.[0]?.expressions[0]?.value;
  assert(value !== undefined, JSON.stringify(answer).slice(0, 500));
  return new Map(Object.entries(value).map(([file, path]) => [file, segmentsOf(path)]));
}

/** {@link opaPackages} for Rego v0, which only the command that parses one file can be told of. */
async function opaPackagesV0(modules: Record<string, string>, dir: string): Promise<Map<string, string[]>> {
  const read = new Map<string, string[]>();
  for (const [file, rego] of Object.entries(modules)) {
    await writeFile(join(dir, 'module.rego'), rego);
    const answer = await opaJson(['parse', '--v0-compatible', '--format=json', join(dir, 'module.rego')]);
    const { package: found } = answer as { package?: { path: Term[] } };
    if (found !== undefined) read.set(file, segmentsOf(found.path));
  }
  return read;
}

function segmentsOf(path: readonly Term[]): string[] {
  return path.slice(1).map((term) => term.value);
}

async function opaJson(args: readonly string[], input?: unknown): Promise<unknown> {
  const child = spawn(await testOpa(), args, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(input === undefined ? '' : JSON.stringify(input));
  return JSON.parse(await text(child.stdout));
}

for (const { name, branch, version, atLeast } of [
  { name: 'conforma-policy.bundle', branch: 'main', version: 'v1', atLeast: 150 },
  { name: 'opal-example-policy-repo.bundle', branch: 'master', version: 'v0', atLeast: 3 },
] as const) {
  const corpus = corpusFile(name);
  test(`packages of all modules of ${name} are what OPA reads`, { skip: corpus.skip }, async (t) => {
    await using dir = await tempDir();
    const gitDir = join(dir.path, 'repo');
    await runGit(['clone', '--quiet', '--bare', '--branch', branch, corpus.path, gitDir]);
    const history = serveHistory(gitDir);
    history.serve(await runGit(['-C', gitDir, 'rev-parse', branch]));
    const { policy_modules } = await history.bundle(undefined, ['.']);
    const modules = Object.fromEntries(policy_modules.map(({ path, rego }) => [path, rego]));
    const read = version === 'v1' ? await opaPackages(modules) : await opaPackagesV0(modules, dir.path);
    assert(read.size >= atLeast, `OPA parsed only ${read.size} modules`);
    assert.equal(read.size, policy_modules.length, 'OPA parses all of them');
    for (const [file, path] of read) assert.deepEqual(regoPackage(modules[file] ?? ''), path, file);
    t.diagnostic(`${read.size} modules`);
  });
}

test('packages that are written in unusual ways are what OPA reads, and what it refuses has none', async () => {
  const texts = [
    'package a',
    'package a.b.c\n\nx := 1\n',
    '# about\n\n\r\n  package a.b # more',
    '#\n#package x\npackage a',
    'package a["b c"]',
    'package a["b"].c["d.e"]\nx := 1',
    'package a[ "b" ]',
    'package a["q\\"]\\\\"].b',
    'package a["\\u00e9/%"]',
    'package a["__proto__"].constructor',
    'package a["b"]["c"]',
    'package # why\n a',
    'package\n\n a',
    '\tpackage\ta.b\t',
    'package _a.b_1',
    'package a[`raw`]',
    'package a[``]',
    'package a[""]',
    'package data.a',
    'package a.input',
    '\uFEFFpackage a',
    'package',
    'packagea',
    'package 1',
    'package ["a"]',
    'import rego.v1\npackage a',
    '',
    '# nothing',
    '"package a"',
  ];
  const modules = Object.fromEntries(texts.map((rego, index) => [`${index}.rego`, rego]));
  const read = await opaPackages(modules);
  assert(read.size > 10);
  const [ours, theirs] = [new Map<string, unknown>(), new Map<string, unknown>()];
  for (const [file, rego] of Object.entries(modules)) {
    ours.set(rego, regoPackage(rego));
    theirs.set(rego, read.get(file));
  }
  assert.deepEqual(ours, theirs);
});
