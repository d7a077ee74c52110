import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import { EngineArtifact } from '../../src/embedded/artifact.js';
import { CompiledPolicy } from '../../src/embedded/compiled/compiled-policy.js';
import { EvaluationError } from '../../src/embedded/compiled/evaluation-error.js';
import { GoOpa } from '../../src/embedded/go/go-opa.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { arbitraryInput, inputText } from './arbitrary-input.js';
import { arbitraryModule } from './arbitrary-policy.js';
import {
  type ArbitraryPolicy,
  arbitraryShapes,
  KNOWN_SHAPES,
  SHAPE_DOCUMENTS,
  SHAPE_INPUTS,
} from './arbitrary-shapes.js';
import { EXPRESSIONS, GO_EXPRESSIONS } from './builtin-expressions.js';

const DOCUMENTS = `{"o":{"a":1,"1":2,"ab":[1],"b":"x","-5":"m"},"l":["p","q",{"a":2.5}],"numbers":{"1":"one","20":[true]},
  "deep":{"a":{"x":["m","n"]},"1":{"x":{"0":"z","a":null}},"x-y":{}}}`;
const MEMORY_LIMIT = 256 * 1024 * 1024;
const LONG = process.env.SYNC_TEST_LONG === '1';
/** The same in each run: a difference that was found is there again. */
const SEED = 16;

describe('compiled and Go give the same bytes', () => {
  let go: GoOpa;

  before(async () => {
    go = await GoOpa.start({ program: await new EngineArtifact().load() });
  });

  /** Loads a policy; undefined if it does not compile, or nothing of it. */
  async function load({ modules, paths }: ArbitraryPolicy, documents = DOCUMENTS): Promise<CompiledPolicy | undefined> {
    try {
      await go.prepare({ hash: '', modules }, { roots: [[]], documents });
    } catch (error) {
      assert(error instanceof EngineRefusal);
      return undefined;
    }
    const { wasm } = await go.compile(paths, 'prepared');
    await go.commit();
    if (wasm === undefined) return undefined;
    const compiled = new CompiledPolicy(new WebAssembly.Module(wasm), {
      callBuiltin: (name, args, isFresh) => go.callBuiltin(name, args, isFresh),
      memoryLimitBytes: MEMORY_LIMIT,
      documentBytes: documents.length,
    });
    compiled.setDocuments(documents);
    return compiled;
  }

  /** A policy of one module of package `t`. */
  function loadModule(rego: string, rules: readonly string[]): Promise<CompiledPolicy | undefined> {
    return load({ modules: [{ path: 'm.rego', rego, version: 1 }], paths: rules.map((rule) => `t/${rule}`) });
  }

  /** Says how the two answer differently; undefined if they do not, or the compiled policy leaves the question to Go. */
  async function difference(policy: CompiledPolicy, path: string, input?: string): Promise<string | undefined> {
    let compiled: string | undefined;
    try {
      compiled = policy.evaluate(path, input);
    } catch (error) {
      assert(error instanceof EvaluationError && !error.isBroken, `${path} ${input}: ${String(error)}`);
      return undefined;
    }
    const exact = await go.decide(path, input).catch((error: unknown) => String(error));
    return compiled === exact ? undefined : `${path} with ${input}: compiled ${compiled}, Go ${exact}`;
  }

  it('for each built-in function, with odd arguments', async () => {
    const all = { ...EXPRESSIONS, ...GO_EXPRESSIONS };
    const names = Object.keys(all);
    const rules = names.map((name) => `p_${name} := x if {\n\tx := ${all[name]}\n}`);
    const policy = await loadModule(
      `package t\n\n${rules.join('\n\n')}`,
      names.map((name) => `p_${name}`),
    );
    assert(policy !== undefined && policy.entrypoints.length > names.length - 10, 'nearly all are compiled');
    const compiled = new Set(policy.entrypoints);
    const found: string[] = [];
    const asked = new Set<string>();
    for (const input of fc.sample(arbitraryInput, { numRuns: LONG ? 2000 : 40, seed: SEED })) {
      for (const name of names) {
        if (!compiled.has(`t/p_${name}`)) continue;
        const used = new Set([...(all[name] ?? '').matchAll(/input\.(\w+)/g)].map(([, member]) => member));
        const part = Object.fromEntries(Object.entries(input).filter(([member]) => used.has(member)));
        const text = inputText(part);
        if (asked.has(`${name} ${text}`)) continue; // the same arguments as before
        asked.add(`${name} ${text}`);
        const one = await difference(policy, `t/p_${name}`, text);
        if (one !== undefined) found.push(one);
      }
    }
    assert.deepEqual(found, []);
  });

  it('for random policies', async () => {
    const found: string[] = [];
    let compiled = 0;
    const numRuns = LONG ? 1000 : 40;
    const inputs = fc.sample(arbitraryInput, { numRuns: 4, seed: SEED });
    for (const { rego, rules } of fc.sample(arbitraryModule, { numRuns, seed: SEED })) {
      const policy = await loadModule(rego, rules);
      for (const path of policy?.entrypoints ?? []) {
        assert(policy !== undefined);
        compiled++;
        for (const input of inputs) {
          const one = await difference(policy, path, inputText(input));
          if (one !== undefined) found.push(`${one}\n${rego}`);
        }
      }
    }
    assert.deepEqual(found, []);
    assert(compiled > numRuns, `only ${compiled} rules were compiled`);
  });

  it('for shapes of known policies, each compiled, or with Go for its reason', async () => {
    const names = Object.keys(KNOWN_SHAPES);
    const modules = names.map((name, i) => ({
      path: `${i}.rego`,
      rego: `package t${i}\n\n${KNOWN_SHAPES[name]?.rego}`,
      version: 1 as const,
    }));
    const paths = names.map((_, i) => `t${i}`);
    await go.prepare({ hash: '', modules }, { roots: [[]], documents: SHAPE_DOCUMENTS });
    const { entrypoints } = await go.compile(paths, 'prepared');
    const reasons = entrypoints.map(({ reason = 'compiled' }, i) => [names[i], reason.replace(/^\d+\.rego:\d+: /, '')]);
    const expected = names.map((name) => [name, KNOWN_SHAPES[name]?.stays ?? 'compiled']);
    assert.deepEqual(reasons, expected);
    const policy = await load({ modules, paths }, SHAPE_DOCUMENTS);
    assert(policy !== undefined);
    const found: string[] = [];
    for (const path of policy.entrypoints)
      for (const input of SHAPE_INPUTS) {
        const one = await difference(policy, path, input);
        if (one !== undefined) found.push(one);
      }
    assert.deepEqual(found, []);
  });

  for (const [kind, { policies, runs, many }] of Object.entries(arbitraryShapes))
    it(`for random policies with ${kind}`, async () => {
      const found: string[] = [];
      let compiled = 0;
      const numRuns = LONG ? 1000 : runs;
      for (const shaped of fc.sample(policies, { numRuns, seed: SEED })) {
        const policy = await load(shaped, SHAPE_DOCUMENTS);
        for (const path of policy?.entrypoints ?? []) {
          assert(policy !== undefined);
          compiled++;
          for (const input of SHAPE_INPUTS) {
            const one = await difference(policy, path, input);
            if (one !== undefined) found.push(`${one}\n${shaped.modules.map(({ rego }) => rego).join('\n')}`);
          }
        }
      }
      assert.deepEqual(found, []);
      assert(compiled > numRuns * many, `only ${compiled} paths were compiled`);
    });
});
