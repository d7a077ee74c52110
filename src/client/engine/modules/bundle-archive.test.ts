import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { extract } from 'tar-stream';
import type { DocPath } from '../../../wire/doc-path.js';
import { type BundleContent, bundleArchive } from './bundle-archive.js';

/** Names and texts of the files in an archive, in order. */
async function files(content: Partial<BundleContent>): Promise<Map<string, string>> {
  const whole = {
    policy: { hash: 'h', modules: new Map() },
    roots: [],
    regions: [],
    v0: new Set<string>(),
    ...content,
  };
  const archive = extract();
  archive.end(gunzipSync(await bundleArchive(whole, 'r1')));
  const found = new Map<string, string>();
  for await (const entry of archive) {
    assert(!found.has(entry.header.name), `${entry.header.name} is there twice`);
    found.set(entry.header.name, (await buffer(entry)).toString('utf8'));
  }
  return found;
}

async function manifest(content: Partial<BundleContent>): Promise<unknown> {
  return JSON.parse((await files(content)).get('.manifest') ?? '');
}

async function data(...regions: [DocPath, string][]): Promise<string | undefined> {
  return (await files({ regions: regions.map(([path, text]) => ({ path, text })) })).get('data.json');
}

describe('an OPA bundle', () => {
  it('has the modules under their paths, whatever letters these have', async () => {
    const modules = new Map([
      ['a/b.rego', 'package a'],
      ['with space/é.rego', 'package b # ünï'],
      [`${'long/'.repeat(60)}x.rego`, 'package c'],
      ['empty.rego', ''],
    ]);
    const found = await files({ policy: { hash: 'h', modules } });
    for (const [path, rego] of modules) assert.equal(found.get(path), rego);
    assert.deepEqual([...found.keys()], ['.manifest', ...modules.keys(), 'data.json']);
  });

  it('says its revision, version of Rego and roots', async () => {
    assert.deepEqual(await manifest({ roots: [['a', 'b'], ['c']] }), {
      revision: 'r1',
      roots: ['a/b', 'c'],
      rego_version: 1,
    });
  });

  it('without roots owns a place that nobody uses, and not everything', async () => {
    assert.deepEqual(await manifest({}), { revision: 'r1', roots: ['system/policysync/none'], rego_version: 1 });
  });

  it('has roots as OPA compares them: segments as they are', async () => {
    // OPA 1.22 compares roots with the plain segments of packages and documents, and decodes them
    // only when it erases.
    assert.deepEqual(await manifest({ roots: [['u', 'c d'], ['é']] }), {
      revision: 'r1',
      roots: ['u/c d', 'é'],
      rego_version: 1,
    });
  });

  it('has one document of all regions, their texts as written', async () => {
    assert.equal(await data(), '{}');
    assert.equal(await data([['a'], '{"n":12345678901234567890,"f":1.0}']), '{"a":{"n":12345678901234567890,"f":1.0}}');
    assert.equal(
      await data([['a', 'b'], '1'], [['c'], '2'], [['a', 'd', 'e'], '[ 3 ]']),
      '{"a":{"b":1,"d":{"e":[ 3 ]}},"c":2}',
    );
    assert.equal(await data([[], '{"all":1}']), '{"all":1}');
    assert.equal(await data([['x/y', '"q"', '__proto__'], 'null']), '{"x/y":{"\\"q\\"":{"__proto__":null}}}');
  });

  it('has each package as an object, with its documents, and what lies beside', async () => {
    const modules = new Map([
      ['a.rego', 'package t.a'],
      ['b.rego', 'package t.b'],
      ['c.rego', 'package t.d.c'],
      ['e.rego', 'package e'],
    ]);
    const whole = { policy: { hash: 'h', modules }, roots: [['t'], ['e']] };
    assert.equal((await files(whole)).get('data.json'), '{"e":{},"t":{"a":{},"b":{},"d":{"c":{}}}}');
    const regions = [{ path: ['t'], text: '{"x":1.0, "b":{"k":2}, "d":{"f":[3]}}' }];
    assert.equal(
      (await files({ ...whole, regions })).get('data.json'),
      '{"e":{},"t":{"x":1.0,"a":{},"b":{"k":2},"d":{"f":[3],"c":{}}}}',
    );
  });
});
