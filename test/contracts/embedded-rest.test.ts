import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { makeAuthz, ownOrigins, writeAuthz } from '../../src/client/engine/opa-authz.js';
import type { EmbeddedOpa } from '../../src/embedded/embedded-opa.js';
import { startEmbeddedOpa } from '../support/embedded-opa.js';
import { clientSettings } from '../support/engine.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { startFront } from '../support/opa-front.js';
import { type ComparedRequest, difference, send } from '../support/rest-comparison.js';
import { REFUSED_REQUESTS, REST_DOCUMENTS, REST_MODULES, REST_REQUESTS, REST_RULES } from '../support/rest-requests.js';
import { tempDir } from '../support/temp-dir.js';

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

describe('the REST API of the embedded engine has the bytes of OPA', () => {
  let real: TestOpa;

  before(async () => {
    real = await startOpa();
    await fillOpa(real);
  });
  after(() => real[Symbol.asyncDispose]());

  it('in answers that Go decides, but for what docs/engine.md names', async () => {
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

  it('in answers that compiled policy decides', async () => {
    assert(OF_RULES.length > 300, `${OF_RULES.length} requests`);
    const entrypoints = [...REST_RULES.map((rule) => `app/${rule}`), 'app', 'system/main'];
    await using embedded = await startEmbeddedOpa({ entrypoints });
    await fillEmbedded(embedded.opa);
    const found = await differences(OF_RULES, real, embedded.opa);
    assert.equal(found.length, 0, found.join('\n'));
    const { compiled } = embedded.opa.state.decisions;
    assert(compiled > 100, `${compiled} decisions`);
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
