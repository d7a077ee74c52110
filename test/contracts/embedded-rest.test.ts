import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeAuthz, ownOrigins, writeAuthz } from '../../src/client/engine/opa-authz.js';
import type { EmbeddedOpa, EmbeddedOpaOptions, EmbeddedState } from '../../src/embedded/embedded-opa.js';
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

/** The names of requests, with both answers, that the engine answers otherwise than OPA. */
async function differences(
  requests: readonly ComparedRequest[],
  real: TestOpa,
  options: Partial<EmbeddedOpaOptions>,
): Promise<{ readonly found: string[]; readonly decisions: EmbeddedState['decisions'] }> {
  await using embedded = await startEmbeddedOpa(options);
  await fillEmbedded(embedded.opa);
  await using front = await startFront({}, embedded.opa);
  const found: string[] = [];
  for (const request of requests) {
    const one = await difference(request, real.port, front.port);
    if (one !== undefined) found.push(one);
  }
  return { found, decisions: embedded.opa.state.decisions };
}

describe('the REST API of the embedded engine has the bytes of OPA', () => {
  it('in answers that Go decides', async () => {
    await using real = await startOpa();
    await fillOpa(real);
    const { found, decisions } = await differences(REST_REQUESTS, real, { maxEntrypoints: 0 });
    assert.equal(found.length, 0, found.join('\n'));
    assert.equal(decisions.compiled, 0);
  });

  it('in answers that compiled policy decides', async () => {
    await using real = await startOpa();
    await fillOpa(real);
    const entrypoints = [...REST_RULES.map((rule) => `app/${rule}`), 'app', 'system/main'];
    const { found, decisions } = await differences(REST_REQUESTS, real, { entrypoints });
    assert.equal(found.length, 0, found.join('\n'));
    assert(decisions.compiled > 100, `${decisions.compiled} decisions`);
  });

  it('in what nobody may ask, compared with an inline engine', async () => {
    await using dir = await tempDir();
    const authz = makeAuthz(clientSettings({}));
    const { files = [], ...access } = await writeAuthz(dir.path, authz.rego);
    const args = Object.entries(access).map(([name, value]) => `--${name}=${value}`);
    await using real = await startOpa({ args: [...args, ...files] });
    await using front = await startFront({ origins: ownOrigins(clientSettings({})) });
    for (const request of REFUSED_REQUESTS) {
      assert.deepEqual(await send(front.port, request), await send(real.port, request), request.name);
      assert.equal((await send(front.port, request)).status, 401, request.name);
    }
    assert.deepEqual([front.questions, front.requests], [[], []]);
  });

  it('but for what docs/engine.md names', async () => {
    await using real = await startOpa();
    await fillOpa(real);
    await using embedded = await startEmbeddedOpa();
    await fillEmbedded(embedded.opa);
    await using front = await startFront({}, embedded.opa);
    const both = (request: ComparedRequest) => Promise.all([send(real.port, request), send(front.port, request)]);
    const [version, none] = await both({ name: 'the version as a document', target: '/v1/data/system/version' });
    assert.match(version.body, /"version":"1\.\d+\.\d+"/);
    assert.equal(none.body, '{}\n');
  });
});
