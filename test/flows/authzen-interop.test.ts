import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ENGINES, type StartedPdp, startPdp } from '../support/authzen.js';
import {
  type ScenarioCase,
  SEARCH_FILES,
  SEARCHES,
  TODO_BATCHES,
  TODO_EVALUATIONS,
  TODO_FILES,
} from '../support/authzen-scenarios.js';
import { makeAuthority, type TestAuthority } from '../support/certificates.js';
import { field } from '../support/http.js';

/** The interop scenarios of the AuthZEN working group: the Todo application, and the search application. */

let authority: TestAuthority;
before(async () => {
  authority = await makeAuthority('interop');
});
after(async () => {
  await authority[Symbol.asyncDispose]();
});

for (const engine of ENGINES) {
  describe(`AuthZEN interop with an ${engine} engine`, () => {
    let pdp: StartedPdp;
    before(async () => {
      pdp = await startPdp(engine, authority);
    });
    after(async () => {
      await pdp?.[Symbol.asyncDispose]();
    });

    it('decides for Rick, Morty, Summer, Beth and Jerry as documented', async () => {
      await pdp.use(TODO_FILES);
      assert.equal(TODO_EVALUATIONS.length, 40);
      for (const { request, expected } of TODO_EVALUATIONS) {
        const answer = await pdp.post('/access/v1/evaluation', request);
        assert.deepEqual(answer.json, { decision: expected }, JSON.stringify(request));
      }
      for (const { request, expected } of TODO_BATCHES) {
        const answer = await pdp.post('/access/v1/evaluations', request);
        assert.deepEqual(answer.json, { evaluations: expected }, JSON.stringify(request));
      }
      const all = { evaluations: TODO_EVALUATIONS.map(({ request }) => request) };
      const answer = await pdp.post('/access/v1/evaluations', all);
      assert.deepEqual(answer.json, { evaluations: TODO_EVALUATIONS.map(({ expected }) => ({ decision: expected })) });
    });

    it('finds subjects, resources and actions as documented', async () => {
      await pdp.use(SEARCH_FILES);
      const sorted = (list: unknown): string[] =>
        (list as object[]).map((one) => String(field(one, 'id') ?? field(one, 'name'))).sort();
      for (const [kind, cases] of Object.entries<readonly ScenarioCase[]>(SEARCHES)) {
        for (const { request, expected } of cases) {
          const answer = await pdp.post(`/access/v1/search/${kind}`, request);
          assert.deepEqual(sorted(field(answer.json, 'results')), sorted(expected), JSON.stringify(request));
        }
      }
    });
  });
}
