import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import { EngineArtifact } from '../../src/embedded/artifact.js';
import { CompiledPolicy } from '../../src/embedded/compiled/compiled-policy.js';
import { EvaluationError } from '../../src/embedded/compiled/evaluation-error.js';
import { GoOpa } from '../../src/embedded/go/go-opa.js';
import { GoRefusal } from '../../src/embedded/types.js';
import { arbitraryInput, inputText } from './arbitrary-input.js';
import { arbitraryModule } from './arbitrary-policy.js';
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

  /** Loads a module; undefined if it does not compile, or nothing of it. */
  async function load(rego: string, rules: readonly string[]): Promise<CompiledPolicy | undefined> {
    const policy = { hash: '', modules: [{ path: 'm.rego', rego, version: 1 as const }] };
    try {
      await go.prepare(policy, { roots: [[]], documents: DOCUMENTS });
    } catch (error) {
      assert(error instanceof GoRefusal);
      return undefined;
    }
    const paths = rules.map((rule) => `t/${rule}`);
    const { wasm } = await go.compile(paths, 'prepared');
    await go.commit();
    if (wasm === undefined) return undefined;
    const compiled = new CompiledPolicy(new WebAssembly.Module(wasm), {
      callBuiltin: (name, args, isFresh) => go.callBuiltin(name, args, isFresh),
      memoryLimitBytes: MEMORY_LIMIT,
      documentBytes: DOCUMENTS.length,
    });
    compiled.setDocuments(DOCUMENTS);
    return compiled;
  }

  /** Says how the two answer differently; undefined if they do not, or the compiled policy leaves the question to Go. */
  async function difference(policy: CompiledPolicy, rule: string, input: string): Promise<string | undefined> {
    let compiled: string | undefined;
    try {
      compiled = policy.evaluate(`t/${rule}`, input);
    } catch (error) {
      assert(error instanceof EvaluationError && !error.isBroken, `${rule} ${input}: ${String(error)}`);
      return undefined;
    }
    const exact = await go.decide(`t/${rule}`, input).catch((error: unknown) => String(error));
    return compiled === exact ? undefined : `${rule} with ${input}: compiled ${compiled}, Go ${exact}`;
  }

  it('for each built-in function, with odd arguments', async () => {
    const all = { ...EXPRESSIONS, ...GO_EXPRESSIONS };
    const names = Object.keys(all);
    const rules = names.map((name) => `p_${name} := x if {\n\tx := ${all[name]}\n}`);
    const policy = await load(
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
        const one = await difference(policy, `p_${name}`, text);
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
      const policy = await load(rego, rules);
      if (policy === undefined) continue;
      for (const rule of policy.entrypoints.map((path) => path.slice('t/'.length))) {
        compiled++;
        for (const input of inputs) {
          const one = await difference(policy, rule, inputText(input));
          if (one !== undefined) found.push(`${one}\n${rego}`);
        }
      }
    }
    assert.deepEqual(found, []);
    assert(compiled > numRuns, `only ${compiled} rules were compiled`);
  });
});
