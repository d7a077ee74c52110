import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Layer } from '../../src/client/desired/layers.js';
import { OpaRest } from '../../src/client/engine/opa/opa-rest.js';
import { members, objectText } from '../../src/lib/json/json-text.js';
import type { DocPath } from '../../src/wire/doc-path.js';
import { bodyOfText } from '../../src/wire/json-node.js';
import { ANY_CHARACTER } from '../support/any-character.js';
import { startEngine, type TestEngine } from '../support/engine.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { until } from '../support/until.js';

/** A document lies exactly at its path, and is read there, in each engine and however many are written at once. */

const never = new AbortController().signal;

/** Segments that some interface of OPA reads as something else, or not at all. */
const ODD = [
  ...['%', '%41', '%2520', 'a%20b', 'root%41', '50%', '%zz', '%2F', '%25', '+', 'a+b', 'a b'],
  ...['/', '//', 'a/a', 'ta/', 'data/', '/v1/data/', 'a/b', '~', '~0', '~1', '~01', '%7E1'],
  ...['"', 'a"b', '\\', '\\"', '\u0001', '\u0007', '\u007f', '\n', '\ufeff', '\u2028', '\u{e0001}', '\u{1f600}'],
  ...[
    '007',
    '5',
    '+5',
    '-5',
    '-0',
    '5.0',
    '.0',
    '1e3',
    '99999999999999999999',
    '0x10',
    '__proto__',
    'constructor',
    '*',
    '?',
    '#',
    ';',
  ],
];
const segment = fc.oneof(fc.constantFrom(...ODD), fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 5 }));

/** Paths of one length, so that none is above another, for one write. */
function pathsOf(least: number, most: number): fc.Arbitrary<string[][]> {
  return fc
    .integer({ min: 1, max: 3 })
    .chain((length) =>
      fc.array(fc.array(segment, { minLength: length, maxLength: length }), { minLength: least, maxLength: most }),
    );
}

/** Runs of each batch size; few of many. */
const SIZES: readonly [string, fc.Arbitrary<string[][]>, number][] = [
  ['one', pathsOf(1, 1), 40],
  ['several', pathsOf(2, 6), 30],
  ['many', pathsOf(50, 80), 3],
];

let runs = 0;
/** Number of layers that were made: the rank of each. */
let seq = 0;

/** Documents of one run: all below a name of their own. */
class Documents {
  readonly top = `run${++runs}`;
  readonly layers: Layer[] = [];
  readonly #root = new Map<string, Map<string, unknown> | number>();

  add(path: DocPath): void {
    seq++;
    const whole = [this.top, ...path];
    const content = { kind: 'put', body: bodyOfText(String(seq)) } as const;
    // The last one of a path wins.
    this.layers.push({ id: JSON.stringify(whole), path: whole, rank: { era: 1, seq, index: 0 }, content });
    let at = this.#root as Map<string, unknown>;
    for (const name of path.slice(0, -1)) {
      const below = (at.get(name) as Map<string, unknown> | undefined) ?? new Map<string, unknown>();
      at.set(name, below);
      at = below;
    }
    at.set(path.at(-1) ?? '', seq);
  }

  get text(): string {
    return textOf(this.#root);
  }
}

/** A JSON text with sorted members. Not by way of `JSON.parse`, which in some versions of V8 takes the member `\"` for `\\`. */
function sorted(text: string): string {
  if (!text.startsWith('{')) return text;
  const found = [...members(text)].map(([name, value]) => [name, sorted(value)] as const);
  return objectText(found.sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** What an engine has at a path, with sorted members; undefined where there is nothing. */
async function held(engine: TestEngine, path: DocPath): Promise<string | undefined> {
  const found = members((await engine.engine.read(path, never)).trim()).get('result');
  return found === undefined ? undefined : sorted(found);
}

function textOf(value: unknown): string {
  if (!(value instanceof Map)) return String(value);
  return objectText([...(value as Map<string, unknown>)].map(([name, member]) => [name, textOf(member)] as const));
}

function apply(engine: TestEngine, layers: readonly Layer[], drop: readonly string[] = []): Promise<unknown> {
  return engine.keeper.exclusive((signal) => engine.applier.applyLayers({ set: layers, drop }, signal));
}

for (const kind of ['inline', 'external', 'embedded'] as const) {
  describe(`places of documents in an engine (${kind})`, () => {
    let opa: TestOpa | undefined;
    let engine: TestEngine;
    const all: Documents[] = [];
    before(async () => {
      opa = kind === 'external' ? await startOpa() : undefined;
      engine = await startEngine({
        env: { SYNC_INLINE_ENGINE_OPEN: String(kind === 'inline') },
        ...(opa === undefined ? { kind: kind === 'embedded' ? 'embedded' : 'inline' } : { externalUrl: opa.url }),
      });
    });
    after(async () => {
      await engine?.[Symbol.asyncDispose]();
      await opa?.stop();
    });

    for (const [size, paths, numRuns] of SIZES) {
      it(`${size} at once, each of any characters, and each is read where it was written`, async () => {
        await fc.assert(
          fc.asyncProperty(paths, async (found) => {
            const documents = new Documents();
            for (const path of found) documents.add(path);
            const layers = [...new Map(documents.layers.map((layer) => [layer.id, layer])).values()];
            await apply(engine, layers);
            assert.equal(await held(engine, [documents.top]), sorted(documents.text));
            for (const { path, rank } of layers.slice(0, 20)) {
              assert.equal(await held(engine, path), String(rank.seq), JSON.stringify(path));
            }
            const [gone, ...kept] = layers;
            assert(gone !== undefined);
            await apply(engine, [], [gone.id]);
            assert.equal(await held(engine, gone.path), undefined, JSON.stringify(gone.path));
            await apply(engine, kept.length > 0 ? [gone, ...kept] : [gone]);
            assert.equal(await held(engine, [documents.top]), sorted(documents.text));
            all.push(documents);
          }),
          { numRuns },
        );
      });
    }

    it('members of any name in a document that others are part of, also without one', async () => {
      const names = [...ODD, '', '.', '..'];
      const text = (n: number): string => objectText(names.map((name) => [name, String(n)] as const));
      const put = (path: DocPath, value: string): Layer => {
        const content = { kind: 'put', body: bodyOfText(value) } as const;
        return { id: JSON.stringify(path), path, rank: { era: 1, seq: ++seq, index: 0 }, content };
      };
      const top = `run${++runs}`;
      const first = put([top, 'doc'], text(1));
      await apply(engine, [first, put([top, 'doc', 'own'], '0')]);
      // Member by member: the document of the other stays.
      await apply(engine, [{ ...first, content: { kind: 'put', body: bodyOfText(text(2)) } }]);
      assert.equal(await held(engine, [top, 'doc']), sorted(`${text(2).slice(0, -1)},"own":0}`));
      await apply(engine, [], [first.id]);
      assert.equal(await held(engine, [top, 'doc']), '{"own":0}');
    });

    it('all of them again after the engine has started anew', async () => {
      if (opa !== undefined) {
        const { port } = opa;
        await opa.stop();
        opa = await startOpa({ port });
      } else if (kind === 'inline') engine.kill();
      else await engine.keeper.exclusive((signal) => engine.applier.held.restore(signal));
      await until(() => engine.status.engine.online, { withinMs: 20_000, what: 'the engine holds our state again' });
      if (kind !== 'embedded') {
        const last = all.at(-1)?.top ?? '';
        const whole = async (): Promise<boolean> => (await held(engine, [last]).catch(() => undefined)) !== undefined;
        await until(whole, { withinMs: 20_000, what: 'it is filled' });
        await engine.keeper.exclusive(async () => undefined);
      }
      for (const { top, text } of all) assert.equal(await held(engine, [top]), sorted(text), top);
    });
  });
}

it('a path that OPA would read as another one is refused, and nothing is written', async () => {
  await using opa = await startOpa();
  const rest = new OpaRest({ url: opa.url, timeoutMs: 5000 });
  const write = (...paths: DocPath[]): Promise<void> =>
    rest.write(
      paths.map((path) => ({ op: 'put', path, text: () => '{"x":1}' }) as const),
      never,
    );
  await write(['kept']);
  for (const path of [[''], ['', 'a'], ['a', ''], ['\ud800']]) {
    await assert.rejects(write(path), /begins or ends with a member without a name|surrogate/, JSON.stringify(path));
    await assert.rejects(write(['other'], path), JSON.stringify(path));
  }
  assert.equal(await rest.getData(['other'], never), undefined);
  assert.equal(await rest.getData(['kept'], never), '{"x":1}');
  await rest.close();
});
