import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineRefusal } from '../../embedded/vocabulary.js';
import { silentLogger } from '../../lib/observe/log.js';
import { type DocPath, docPathText, parseDocPath } from '../../wire/doc-path.js';
import { bodyOfText } from '../../wire/json-node.js';
import { LayerSet } from '../desired/layers.js';
import { ComparedPlaces, DriftCheck } from './drift-check.js';

test('what somebody writes right after a repair is found by the next comparison', async () => {
  const layers = new LayerSet();
  const path: DocPath = ['a'];
  layers.set({
    id: 'one',
    path,
    rank: { era: 1, seq: 1, index: 0 },
    content: { kind: 'put', body: bodyOfText('1') },
  });
  const stop = new AbortController();
  let held = '1';
  let reads = 0;
  const rewrites: string[] = [];
  const check = new DriftCheck(
    { intervalMs: 1, recordDelayMs: 0 },
    {
      engine: {
        reserved: [],
        read: async () => {
          reads++;
          // The first one records what the client has written; then somebody else comes.
          const found = held;
          if (reads === 1) held = 'foreign';
          return found;
        },
      },
      held: {
        layers,
        policy: undefined,
        watch: () => undefined,
        tidy: async () => [],
        rewrite: async () => {
          rewrites.push(held);
          // Comes again, before anybody can look.
          held = rewrites.length === 1 ? 'foreign again' : '1';
          if (rewrites.length === 2) stop.abort();
        },
      },
      exclusive: (step) => step(stop.signal),
      log: silentLogger(),
    },
  );
  const limit = setTimeout(() => stop.abort(), 5000);
  await check.run(stop.signal);
  clearTimeout(limit);
  assert.deepEqual(rewrites, ['foreign', 'foreign again']);
});

test('a document that cannot be read, or written again, keeps no other from being compared, and is named', async () => {
  const layers = layersOf({ '/a"b': 1, '/ok': 1, '/stuck': 1 });
  const stop = new AbortController();
  const held = new Map(['/ok', '/stuck'].map((name) => [name, '1']));
  const refuse = (what: string): never => {
    throw new EngineRefusal(what, []);
  };
  let mends = true;
  const rewritten: string[] = [];
  const check = new DriftCheck(
    { intervalMs: 60_000, recordDelayMs: 0 },
    {
      engine: {
        reserved: [],
        read: async (path) => held.get(docPathText(path)) ?? refuse('no such name'),
      },
      held: {
        layers,
        policy: undefined,
        watch: () => undefined,
        tidy: async () => (mends ? [] : refuse('a module stays')),
        rewrite: async (path) => {
          const name = docPathText(path);
          if (name === '/stuck') refuse('not again');
          rewritten.push(name);
          held.set(name, '1');
        },
      },
      exclusive: (step) => step(stop.signal),
      log: silentLogger(),
    },
  );
  const running = check.run(stop.signal);
  const first = await check.check();
  assert.deepEqual([first.documents, first.repaired], [2, 0]);
  assert.equal(first.error, '1 of 3 documents could not be compared: /a%22b: no such name');
  for (const name of held.keys()) held.set(name, 'foreign');
  const second = await check.check();
  assert.deepEqual([rewritten, second.repaired, second.documents], [['/ok'], 1, 1]);
  assert.match(second.error ?? '', /^2 of 3 documents could not be compared: .*; \/stuck: not again$/);
  // What could not be mended is not taken for what was written.
  assert.match((await check.check()).error ?? '', /\/stuck: not again$/);
  held.set('/stuck', '1').set('/a%22b', '1');
  assert.equal((await check.check()).error, undefined);
  mends = false;
  assert.equal((await check.check()).error, 'modules: a module stays');
  stop.abort();
  await running;
});

function layersOf(documents: Record<string, unknown>): LayerSet {
  const layers = new LayerSet();
  for (const [at, value] of Object.entries(documents)) {
    layers.set({
      id: at,
      path: parseDocPath(at),
      rank: { era: 1, seq: layers.size, index: 0 },
      content: { kind: 'put', body: bodyOfText(JSON.stringify(value)) },
    });
  }
  return layers;
}

const CLOSED = ['/app/rbac', '/system/policysync/marker'].map(parseDocPath);

test('a document of the root is looked at member by member, around packages and own documents', () => {
  const layers = layersOf({
    '/': { users: { ann: 1 }, app: { limits: 1, rbac: { x: 1 }, deep: { y: 1 } }, n: 1 },
    '/orgs': {},
  });
  const found = new ComparedPlaces().list(layers, CLOSED, () => true).map(docPathText);
  assert.deepEqual(found.sort(), ['/app/deep', '/app/limits', '/n', '/orgs', '/users']);
});

test('a document is one place where nothing closed lies below it, and none inside a package', () => {
  const layers = layersOf({ '/users': { ann: 1 }, '/app/rbac/data': 1, '/app/limits': { a: 1 } });
  assert.deepEqual(
    new ComparedPlaces()
      .list(layers, CLOSED, () => true)
      .map(docPathText)
      .sort(),
    ['/app/limits', '/users'],
  );
});

test('members are looked for again where something was written, or packages have changed', () => {
  const layers = layersOf({ '/': { a: 1 } });
  const places = new ComparedPlaces();
  const list = (isWritten: boolean, closed = CLOSED): string[] =>
    places.list(layers, closed, () => isWritten).map(docPathText);
  assert.deepEqual(list(true), ['/a']);
  const body = bodyOfText('{"b":{"c":1}}');
  layers.set({ id: '/', path: [], rank: { era: 1, seq: 9, index: 0 }, content: { kind: 'put', body } });
  assert.deepEqual(list(false), ['/a']);
  assert.deepEqual(list(true), ['/b']);
  assert.deepEqual(list(false, [['b', 'c']]), []);
});
