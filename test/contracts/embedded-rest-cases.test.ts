import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { EmbeddedOpa } from '../../src/embedded/embedded-opa.js';
import { GoRefusal } from '../../src/embedded/types.js';
import { type ConformanceCase, readCases } from '../conformance/cases.js';
import { startEmbeddedOpa } from '../support/embedded-opa.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { startFront } from '../support/opa-front.js';
import { type ComparedRequest, difference } from '../support/rest-comparison.js';

/** Of so many cases one is asked; with SYNC_TEST_LONG all are. */
const SAMPLE = 24;

/** Modules of a case at most. */
const MOST_MODULES = 16;

const PATH_QUERY = /^\s*data((?:\.[A-Za-z_]\w*)+)\s*=\s*\w+\s*$/;

/** The path of a case that asks for one rule. */
function pathOf({ query }: ConformanceCase): string | undefined {
  return PATH_QUERY.exec(query)?.[1]?.slice(1).replaceAll('.', '/');
}

/** What a case asks over REST: its query, and its path in every way. */
function requestsOf(one: ConformanceCase): ComparedRequest[] {
  const input = one.input === undefined ? '' : `,"input":${one.input}`;
  const ask = (name: string, target: string, body: string): ComparedRequest => ({
    ...{ name: `${one.note}, ${name}`, method: 'POST', target, body },
  });
  const query = ask('query', '/v1/query', `{"query":${JSON.stringify(one.query)}${input}}`);
  const path = pathOf(one);
  if (path === undefined) return [query];
  const { input: value = 'null' } = one;
  return [
    query,
    ask('v1', `/v1/data/${path}`, `{${input.slice(1)}}`),
    ask('v1 again', `/v1/data/${path}`, `{${input.slice(1)}}`),
    ask('v0', `/v0/data/${path}`, value),
    ask('strict', `/v1/data/${path}?strict-builtin-errors`, `{${input.slice(1)}}`),
  ];
}

/** Gives a real OPA the case alone. Returns false if it does not take it, or not one module after the other. */
async function loadReal({ url }: TestOpa, { modules, data = '{}' }: ConformanceCase): Promise<boolean> {
  const call = (method: string, path: string, body?: string) =>
    fetch(url + path, { method, ...(body === undefined ? {} : { body }) });
  let left = Array.from({ length: MOST_MODULES }, (_, index) => `test-${index}.rego`);
  while (left.length > 0) {
    const stays: string[] = [];
    for (const id of left) if ((await call('DELETE', `/v1/policies/${id}`)).status === 400) stays.push(id);
    assert(stays.length < left.length, `OPA keeps ${stays.join()}`);
    left = stays;
  }
  assert(modules.length <= MOST_MODULES);
  assert((await call('PUT', '/v1/data', data)).ok);
  let missing = modules.map((rego, index) => ({ rego, id: `test-${index}.rego` }));
  while (missing.length > 0) {
    const refused: typeof missing = [];
    for (const one of missing) if (!(await call('PUT', `/v1/policies/${one.id}`, one.rego)).ok) refused.push(one);
    if (refused.length === missing.length) return false;
    missing = refused;
  }
  return true;
}

async function loadEmbedded(opa: EmbeddedOpa, { note, modules, data = '{}' }: ConformanceCase): Promise<boolean> {
  const list = modules.map((rego, index) => ({ path: `test-${index}.rego`, rego, version: 1 as const }));
  try {
    await opa.activate({ hash: note, modules: list }, [[]], [{ path: [], text: data }]);
    return true;
  } catch (error) {
    if (error instanceof GoRefusal) return false;
    throw error;
  }
}

it('OPA answers its own conformance cases over REST as the embedded engine does', async (t) => {
  const { cases } = readCases();
  const step = process.env.SYNC_TEST_LONG === '1' ? 1 : SAMPLE;
  const asked = cases.filter(({ inputTerm }, index) => inputTerm === undefined && index % step === 0);
  const entrypoints = [...new Set(asked.map(pathOf).filter((path) => path !== undefined))];
  await using real = await startOpa();
  await using embedded = await startEmbeddedOpa({ entrypoints, maxEntrypoints: entrypoints.length });
  await using front = await startFront({}, embedded.opa);
  const found: string[] = [];
  const counts = { cases: 0, requests: 0, loadedByOne: [] as string[] };
  for (const one of asked) {
    const isLoaded = { real: await loadReal(real, one), embedded: await loadEmbedded(embedded.opa, one) };
    if (isLoaded.real !== isLoaded.embedded) counts.loadedByOne.push(one.note);
    // Refused by name; the other way round a real OPA takes no modules that need each other, one after the other.
    if (isLoaded.real && !isLoaded.embedded)
      assert.match(one.modules.join('\n'), /http\.send|net\.lookup_ip_addr/, one.note);
    if (!isLoaded.real || !isLoaded.embedded) continue;
    counts.cases++;
    for (const request of requestsOf(one)) {
      counts.requests++;
      const different = await difference(request, real.port, front.port);
      if (different !== undefined) found.push(different);
    }
  }
  t.diagnostic(JSON.stringify({ ...counts, decisions: embedded.opa.state.decisions }));
  assert.equal(found.length, 0, found.join('\n'));
});
