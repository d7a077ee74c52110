import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { makeAuthz, ownOrigins, writeAuthz } from '../../src/client/engine/opa/opa-authz.js';
import type { EmbeddedOpa } from '../../src/embedded/embedded-opa.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { type ConformanceCase, readCases } from '../conformance/cases.js';
import { withOwnRoots } from '../conformance/own-roots.js';
import { startEmbeddedOpa } from '../support/embedded-opa.js';
import { clientSettings } from '../support/engine.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { startFront } from '../support/opa-front.js';
import { type ComparedRequest, difference, send } from '../support/rest-comparison.js';
import { REFUSED_REQUESTS, REST_DOCUMENTS, REST_MODULES, REST_REQUESTS, REST_RULES } from '../support/rest-requests.js';
import { runSize } from '../support/run-size.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

async function fillOpa({ url }: TestOpa): Promise<void> {
  const put = async (path: string, body: string): Promise<void> => {
    const response = await fetch(url + path, { method: 'PUT', body });
    assert(response.ok, `${path}: ${await response.text()}`);
  };
  for (const [id, rego] of Object.entries(REST_MODULES)) await put(`/v1/policies/${encodeURIComponent(id)}`, rego);
  for (const [name, value] of Object.entries(REST_DOCUMENTS)) await put(`/v1/data/${name}`, JSON.stringify(value));
}

async function fillEmbedded(opa: EmbeddedOpa): Promise<void> {
  const modules = Object.entries(REST_MODULES).map(([path, rego]) => ({ path, rego, version: 1 as const }));
  await opa.activate({ hash: 'abc', modules }, [['app'], ['system'], ['odd']], []);
  await opa.write(
    Object.entries(REST_DOCUMENTS).map(([name, value]) => ({ path: [name], text: JSON.stringify(value) })),
  );
}

/** Requests that a decision of a rule may answer; all others never come to a compiled policy. */
const OF_RULES = REST_REQUESTS.filter(({ target }) =>
  /^\/(?:v[01]\/data(?:\/?|\/(?:app|system).*))?(?:\?.*)?$/.test(target),
);

/** What the engine answers otherwise than OPA, with both answers. */
async function differences(requests: readonly ComparedRequest[], real: TestOpa, opa: EmbeddedOpa): Promise<string[]> {
  await using front = await startFront({}, opa);
  const found: string[] = [];
  for (const request of requests) {
    const one = await difference(request, real.port, front.port);
    if (one !== undefined) found.push(one);
  }
  return found;
}

/** A module that only Rego v0 has, and one of v1 that a real OPA for v0 takes, too. */
const V0_BESIDE_V1 = [
  {
    path: 'old.rego',
    version: 0,
    rego: 'package old\nallow { input.user == data.users[_] }\nnames[name] { name := data.users[_] }\n',
  },
  {
    path: 'new.rego',
    version: 1,
    rego: 'package new\nimport rego.v1\nallow if data.old.allow\nmany := count(data.old.names)\n',
  },
] as const;

const V0_REQUESTS: readonly ComparedRequest[] = [
  ...['', '/old', '/new', '/old/allow', '/new/allow', '/none'].flatMap((path) =>
    ['', '?metrics', '?pretty', '?instrument', '?strict-builtin-errors', '?explain=full', '?provenance'].flatMap(
      (query) => [
        { name: `GET ${path}${query}`, target: `/v1/data${path}${query}` },
        {
          ...{ name: `POST ${path}${query}`, method: 'POST', target: `/v1/data${path}${query}` },
          body: '{"input":{"user":"ann"}}',
        },
      ],
    ),
  ),
  ...['/v0/data/old/allow', '/'].map((target) => ({ name: target, method: 'POST', target, body: '{"user":"ann"}' })),
  ...['/v1/policies', '/v1/policies/old.rego', '/v1/policies/new.rego', '/v1/policies/none.rego', '/health'].map(
    (target) => ({ name: target, target }),
  ),
  ...['data.old.names[x]', 'data.old.allow', 'data.new.many = n', 'nonsense('].flatMap((query) => [
    { name: `GET ${query}`, target: `/v1/query?q=${encodeURIComponent(query)}` },
    { name: `query ${query}`, method: 'POST', target: '/v1/query?metrics', body: JSON.stringify({ query }) },
    {
      ...{ name: `compile ${query}`, method: 'POST', target: '/v1/compile' },
      body: JSON.stringify({ query, unknowns: ['input'] }),
    },
  ]),
];

/** Of so many cases one is asked. */
const SAMPLE = runSize({ long: 1, ci: 24, quick: 48 });
/** Cases in one policy at most. */
const TOGETHER = 30;

const PATH_QUERY = /^\s*data((?:\.[A-Za-z_]\w*)+)\s*=\s*\w+\s*$/;

/** What the embedded engine refuses by name. */
const LOADED_BY_ONE = /http\.send|net\.lookup_ip_addr/;

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

/** Cases that are loaded as one policy with their documents. */
interface Group {
  readonly cases: readonly ConformanceCase[];
  readonly modules: readonly { readonly path: string; readonly rego: string }[];
  readonly documents: string;
}

/** The cases as they are loaded: together with others, or alone. A real OPA may refuse modules that need each other. */
function groupsOf(cases: readonly ConformanceCase[]): Group[] {
  const alone: Group[] = [];
  const shared: ConformanceCase[] = [];
  for (const [index, one] of cases.entries()) {
    const moved = one.modules.length > 1 ? undefined : withOwnRoots(one, index);
    if (moved === undefined || LOADED_BY_ONE.test(one.modules.join())) alone.push(groupOf([one]));
    else shared.push(moved);
  }
  const together: Group[] = [];
  for (let at = 0; at < shared.length; at += TOGETHER) together.push(groupOf(shared.slice(at, at + TOGETHER)));
  return [...together, ...alone];
}

function groupOf(cases: readonly ConformanceCase[]): Group {
  return {
    cases,
    modules: cases.flatMap(({ modules }, at) =>
      modules.map((rego, index) => ({ path: `case${at}/test-${index}.rego`, rego })),
    ),
    documents: `{${cases.flatMap(({ data = '{}' }) => data.trim().slice(1, -1).trim() || []).join()}}`,
  };
}

/** Removes modules from a real OPA, whose order is not known. */
async function unload({ url }: TestOpa): Promise<void> {
  const { result } = (await (await fetch(`${url}/v1/policies`)).json()) as { result: { id: string }[] };
  let left = result.map(({ id }) => id);
  while (left.length > 0) {
    const stays: string[] = [];
    for (const id of left) {
      const { status } = await fetch(`${url}/v1/policies/${encodeURIComponent(id)}`, { method: 'DELETE' });
      if (status === 400) stays.push(id);
    }
    assert(stays.length < left.length, `OPA keeps ${stays.join()}`);
    left = stays;
  }
}

/** Gives a real OPA the group alone. Returns false if it does not take it, or not one module after the other. */
async function loadReal(real: TestOpa, { modules, documents }: Group): Promise<boolean> {
  const put = (path: string, body: string) => fetch(real.url + path, { method: 'PUT', body });
  await unload(real);
  assert((await put('/v1/data', documents)).ok);
  let missing = modules;
  while (missing.length > 0) {
    const refused: { path: string; rego: string }[] = [];
    for (const one of missing)
      if (!(await put(`/v1/policies/${encodeURIComponent(one.path)}`, one.rego)).ok) refused.push(one);
    if (refused.length === missing.length) return false;
    missing = refused;
  }
  return true;
}

async function loadEmbedded(opa: EmbeddedOpa, { modules, documents }: Group, hash: string): Promise<boolean> {
  const list = modules.map((one) => ({ ...one, version: 1 as const }));
  try {
    await opa.activate({ hash, modules: list }, [[]], [{ path: [], text: documents }]);
    return true;
  } catch (error) {
    if (error instanceof EngineRefusal) return false;
    throw error;
  }
}

/** The cases that are asked. */
function sampledGroups(): Group[] {
  const { cases } = readCases();
  return groupsOf(cases.filter(({ inputTerm }, index) => inputTerm === undefined && index % SAMPLE === 0));
}

describe('the REST API of the embedded engine has the bytes of OPA', () => {
  let real: TestOpa;
  /** With all that is asked here as entrypoints. */
  let compiling: Awaited<ReturnType<typeof startEmbeddedOpa>>;
  const groups = sampledGroups();

  before(async () => {
    real = await startOpa();
    await fillOpa(real);
    const ofRules = [...REST_RULES.map((rule) => `app/${rule}`), 'app', 'system/main'];
    const ofCases = groups.flatMap(({ cases }) => cases.map(pathOf)).filter((path) => path !== undefined);
    const entrypoints = [...new Set([...ofRules, ...ofCases])];
    compiling = await startEmbeddedOpa({ entrypoints, maxEntrypoints: entrypoints.length });
  });
  after(async () => {
    for (const part of [compiling, real]) await part?.[Symbol.asyncDispose]();
  });

  it('in answers that Go decides, but for what docs/how-to/engine.md names', async () => {
    await using embedded = await startEmbeddedOpa({ maxEntrypoints: 0 });
    const { opa } = embedded;
    await fillEmbedded(opa);
    const found = await differences(REST_REQUESTS, real, opa);
    assert.equal(found.length, 0, found.join('\n'));
    assert.equal(opa.state.decisions.compiled, 0);

    await using front = await startFront({}, opa);
    const named: ComparedRequest = { name: 'the version as a document', target: '/v1/data/system/version' };
    const [version, none] = await Promise.all([send(real.port, named), send(front.port, named)]);
    assert.match(version.body, /"version":"1\.\d+\.\d+"/);
    assert.equal(none.body, '{}\n');
  });

  it('in answers of modules of Rego v0 beside one of v1', async () => {
    await using old = await startOpa({ args: ['--v0-compatible'] });
    await using embedded = await startEmbeddedOpa();
    const { opa } = embedded;
    await opa.write([{ path: ['users'], text: '["ann","bob"]' }]);
    await fetch(`${old.url}/v1/data/users`, { method: 'PUT', body: '["ann","bob"]' });
    for (const { path, rego } of V0_BESIDE_V1)
      assert((await fetch(`${old.url}/v1/policies/${path}`, { method: 'PUT', body: rego })).ok, path);
    await opa.activate({ hash: 'both', modules: V0_BESIDE_V1 }, [['old'], ['new']], []);
    const found = await differences(V0_REQUESTS, old, opa);
    assert.equal(found.length, 0, found.join('\n'));
    assert.equal((await send(old.port, { name: 'a document', target: '/v1/data/old?metrics' })).status, 200);
  });

  it('in answers that compiled policy decides', async () => {
    assert(OF_RULES.length > 300, `${OF_RULES.length} requests`);
    await fillEmbedded(compiling.opa);
    {
      await using front = await startFront({}, compiling.opa);
      for (const request of OF_RULES) await send(front.port, request);
    }
    // What is asked for is compiled beside the answers; until then Go gives them.
    const isCompiled = (): boolean => compiling.opa.state.compiled.length > 3;
    await until(isCompiled, { withinMs: 60_000, what: 'what was asked for is compiled' });
    const before = compiling.opa.state.decisions.compiled;
    const found = await differences(OF_RULES, real, compiling.opa);
    assert.equal(found.length, 0, found.join('\n'));
    const compiled = compiling.opa.state.decisions.compiled - before;
    assert(compiled > 100, `${compiled} decisions`);
  });

  it('in answers to its own conformance cases', async (t) => {
    await using front = await startFront({}, compiling.opa);
    const found: string[] = [];
    const counts = { cases: 0, requests: 0, loadedByOne: [] as string[] };
    for (const [at, group] of groups.entries()) {
      const isLoaded = {
        real: await loadReal(real, group),
        embedded: await loadEmbedded(compiling.opa, group, `group ${at}`),
      };
      if (group.cases.length > 1 && !(isLoaded.real && isLoaded.embedded)) {
        groups.push(...group.cases.map((one) => groupOf([one])));
        continue;
      }
      const notes = group.cases.map(({ note }) => note);
      if (isLoaded.real !== isLoaded.embedded) counts.loadedByOne.push(...notes);
      // Refused by name; the other way round a real OPA takes no modules that need each other, one after the other.
      if (isLoaded.real && !isLoaded.embedded)
        assert.match(group.modules.map(({ rego }) => rego).join('\n'), LOADED_BY_ONE, notes.join());
      if (!isLoaded.real || !isLoaded.embedded) continue;
      for (const one of group.cases) {
        counts.cases++;
        for (const request of requestsOf(one)) {
          counts.requests++;
          const different = await difference(request, real.port, front.port);
          if (different !== undefined) found.push(different);
        }
      }
    }
    t.diagnostic(JSON.stringify({ ...counts, decisions: compiling.opa.state.decisions }));
    assert.equal(found.length, 0, found.join('\n'));
  });

  it('in what nobody may ask, compared with an inline engine', async () => {
    await using dir = await tempDir();
    const authz = makeAuthz(clientSettings({}));
    const { files = [], ...access } = await writeAuthz(dir.path, authz.rego);
    const args = Object.entries(access).map(([name, value]) => `--${name}=${value}`);
    await using inline = await startOpa({ args: [...args, ...files] });
    await using front = await startFront({ origins: ownOrigins(clientSettings({})) });
    for (const request of REFUSED_REQUESTS) {
      assert.deepEqual(await send(front.port, request), await send(inline.port, request), request.name);
      assert.equal((await send(front.port, request)).status, 401, request.name);
    }
    assert.deepEqual([front.questions, front.requests], [[], []]);
  });
});
