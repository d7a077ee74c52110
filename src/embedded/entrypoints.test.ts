import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Places } from '../lib/net/places.js';
import { EntrypointTable, entrypointName } from './entrypoints.js';

const RULES = new Places([
  ['app', 'a'],
  ['app', 'b'],
  ['app', 'c'],
  ['app', 'd'],
]);

function table(max: number, fixed: readonly string[] = [], known: readonly string[] = []): EntrypointTable {
  const made = new EntrypointTable(max, { fixed, known });
  made.newPolicy(RULES);
  return made;
}

function compile(made: EntrypointTable, isCompiled = (_: string): boolean => true): void {
  const entrypoints = made.toCompile().map((path) => ({ path, compiled: isCompiled(path), reason: 'odd', reads: [] }));
  made.compiled({ wasm: undefined, entrypoints });
}

/** Asks often enough. */
function use(made: EntrypointTable, path: string): void {
  for (const _ of [1, 2]) made.use(path);
}

test('a path with a rule at, above or below it waits to be compiled; others are left to Go at once', () => {
  const made = table(10);
  const paths = ['app/a', 'app', 'app/a/x', 'users', 'app/z'];
  for (const path of paths) made.use(path);
  assert.deepEqual(
    paths.map((path) => made.use(path)),
    [true, true, true, false, false],
  );
  assert.deepEqual(
    made.withGo().map(({ path }) => path),
    ['users', 'app/z'],
  );
});

test('a path is compiled once it is asked for again: one with a name of somebody in it may never be', () => {
  const made = table(2);
  use(made, 'app/a');
  compile(made);
  for (let n = 0; n < 20; n++) assert.equal(made.use(`app/b/${n}`), false);
  assert.deepEqual([made.hasWanted, made.toCompile(), made.toCompileFirst(RULES)], [false, ['app/a'], ['app/a']]);
  assert.deepEqual([made.compiledPaths(), made.withGo()], [['app/a'], []], 'none is in the way of another one');
  assert.deepEqual(made.state('app/b/19'), { kind: 'new' });
  assert.equal(made.state('app/b/1'), undefined);
  assert.equal(made.use('app/b/19'), true);
  assert.deepEqual(made.toCompile(), ['app/a', 'app/b/19']);
  use(made, 'app/c');
  assert.deepEqual(made.toCompile(), ['app/c', 'app/b/19']);
});

test('a path that was asked for once waits for its second question with the next policy, too', () => {
  const made = table(2);
  made.use('app/a');
  assert.equal(made.hasRegular, false);
  made.newPolicy(RULES);
  assert.deepEqual(made.state('app/a'), { kind: 'new' });
  made.newPolicy(new Places([]));
  assert.equal(made.use('app/a'), false);
  assert.equal(made.hasRegular, true);
  made.newPolicy(RULES);
  assert.deepEqual(made.state('app/a'), { kind: 'wanted' });
});

test('leaves out the least recently used path, but none that the settings name, and compiles what is compiled first', () => {
  const made = table(2, ['app/a']);
  use(made, 'app/b');
  compile(made);
  use(made, 'app/c');
  assert.deepEqual(made.toCompile(), ['app/a', 'app/c']);
  assert.equal(made.state('app/b'), undefined);
  for (let n = 0; n < 10; n++) made.use(`none/${n}`);
  assert.deepEqual(made.withGo().length, 2, 'what Go answers has a bound, too');
  assert.deepEqual(made.toCompile(), ['app/a', 'app/c']);
});

test('paths that turn out to be for Go have the same bound', () => {
  const made = table(2, ['app/a']);
  for (let n = 0; n < 20; n++) {
    use(made, `app/b/${n}`);
    compile(made, () => false);
  }
  assert.deepEqual(
    made.withGo().map(({ path }) => path),
    ['app/a', 'app/b/19'],
  );
});

test('begins with those of the last run, and gives them back in the order of their use', () => {
  const made = table(10, [], ['app/a', 'app/b', '/app/c/']);
  compile(made, (path) => path !== 'app/b');
  made.use('app/a');
  assert.deepEqual(made.compiledPaths(), ['app/c', 'app/a']);
  assert.deepEqual(made.withGo(), [{ path: 'app/b', reason: 'odd' }]);
});

test('of the paths that Go answers, those without a rule come last, whenever they were asked for', () => {
  const made = table(10);
  for (const path of ['gone/1', 'app/a', 'gone/2', 'app/b']) use(made, path);
  compile(made, () => false);
  assert.deepEqual(
    made.withGo().map(({ path }) => path),
    ['app/a', 'app/b', 'gone/1', 'gone/2'],
  );
});

test('another policy opens everything again, and its paths are known before it is active', () => {
  const made = table(10);
  use(made, 'app/a');
  use(made, 'other/x');
  compile(made, () => false);
  assert.deepEqual(made.toCompile(), []);
  const next = new Places([['other', 'x']]);
  assert.deepEqual(made.toCompileFirst(next), ['other/x']);
  made.newPolicy(next);
  assert.deepEqual(made.state('other/x'), { kind: 'wanted' });
  assert.equal(made.state('app/a')?.kind, 'go');
});

test('a path has one name', () => {
  for (const path of ['app/a', '/app/a', 'app//a/', '//app/a']) assert.equal(entrypointName(path), 'app/a');
});
