import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ALL_OFFERED, ENGINES, type StartedPdp, startPdp } from '../support/authzen.js';
import {
  CERTIFICATION_FILES,
  SEARCHES as INTEROP_SEARCHES,
  type ScenarioCase,
  SEARCH_FILES,
  TODO_BATCHES,
  TODO_EVALUATIONS,
  TODO_FILES,
} from '../support/authzen-scenarios.js';
import { makeAuthority, type TestAuthority } from '../support/certificates.js';
import { hostileRequests, OPEN_FILES, WITH_OPEN_TYPE } from '../support/hostile-authzen.js';
import { type Answer, field } from '../support/http.js';

/**
 * The certification scenario of the AuthZEN Authorization API 1.0, all levels (Basic, Batch, Search, Discovery), against real clients
 * over TLS; names of tests have the sections of the scenario. Then the interop scenarios of the working group: the Todo application, and
 * the search application.
 */

const EVALUATION = '/access/v1/evaluation';
const EVALUATIONS = '/access/v1/evaluations';
const SEARCH = '/access/v1/search';

const ALICE = { type: 'user', id: 'alice' };
const BOB = { type: 'user', id: 'bob' };
const ADMIN = { ...BOB, properties: { role: 'admin' } };
const [READ, WRITE] = [{ name: 'read' }, { name: 'write' }];
const RECORD_1 = { type: 'record', id: 'record-1' };
const RECORD_2 = { type: 'record', id: 'record-2' };
const ACTIVE = { ...RECORD_1, properties: { status: 'active' } };
const ARCHIVED = { ...RECORD_2, properties: { status: 'archived' } };
const CONTEXT = { time: '2025-06-27T18:03-07:00', ip: '192.168.1.1' };
const FIXTURE = { subject: ALICE, action: READ, resource: RECORD_1 };

/** Requests of section 2.2 with the decisions that the fixture mandates. */
const DECISIONS: readonly (readonly [section: string, request: object, decision: boolean])[] = [
  ['2.2.1 alice reads', FIXTURE, true],
  ['rule 2 alice writes', { ...FIXTURE, action: WRITE }, true],
  ['rule 3 bob reads', { ...FIXTURE, subject: BOB }, true],
  ['2.2.2 bob writes', { ...FIXTURE, subject: BOB, action: WRITE }, false],
  ['2.2.3 with a context', { ...FIXTURE, context: CONTEXT }, true],
  ['2.2.4 alice writes what is archived', { subject: ALICE, action: WRITE, resource: ARCHIVED }, false],
  ['2.2.5 an admin writes what is archived', { subject: ADMIN, action: WRITE, resource: ARCHIVED }, true],
  ['2.2.6 a soft delete', { ...FIXTURE, action: { name: 'delete', properties: { soft: true } } }, true],
  ['2.2.7 a hard delete', { ...FIXTURE, action: { name: 'delete', properties: { soft: false } } }, false],
  [
    '2.2.8 with more properties',
    {
      subject: { ...ALICE, properties: { department: 'Sales', role: 'manager' } },
      action: { ...READ, properties: { method: 'GET' } },
      resource: { ...RECORD_1, properties: { status: 'active', owner: 'bob' } },
    },
    true,
  ],
  ['2.2.9 with unknown members', { ...FIXTURE, foo: 'bar', futureField: { nested: true } }, true],
];

/** Requests of section 2.4 to which the answer is 400. */
const MALFORMED: readonly (readonly [section: string, request: object | string, headers?: Record<string, string>])[] = [
  ...(['subject', 'action', 'resource'] as const).map(
    (name) => [`2.4.1 no ${name}`, { ...FIXTURE, [name]: undefined }] as const,
  ),
  ['2.4.2 subject without type', { ...FIXTURE, subject: { id: 'alice' } }],
  ['2.4.2 subject without id', { ...FIXTURE, subject: { type: 'user' } }],
  ['2.4.2 action without name', { ...FIXTURE, action: {} }],
  ['2.4.2 resource without type', { ...FIXTURE, resource: { id: 'record-1' } }],
  ['2.4.2 resource without id', { ...FIXTURE, resource: { type: 'record' } }],
  ['2.4.3 text/plain', FIXTURE, { 'content-type': 'text/plain' }],
  ['2.4.3 application/xml', FIXTURE, { 'content-type': 'application/xml' }],
  ['2.4.3 a form', 'subject=alice', { 'content-type': 'application/x-www-form-urlencoded' }],
  ['2.4.4 not JSON', '{"subject":'],
  ['2.4.5 empty', ''],
  ['2.4.6 subject is a string', { ...FIXTURE, subject: 'alice' }],
  ['2.4.6 action.name is a number', { ...FIXTURE, action: { name: 123 } }],
  ['the body is a list', [FIXTURE]],
];

/** Requests of section 3.2 and the decisions, undefined where the fixture mandates none. */
const BATCHES: readonly (readonly [section: string, request: object, decisions: readonly (boolean | undefined)[]])[] = [
  [
    '3.2.1',
    { subject: ALICE, action: READ, evaluations: [{ resource: RECORD_1 }, { resource: RECORD_2 }] },
    [true, undefined],
  ],
  ['3.2.2', { subject: BOB, resource: RECORD_1, evaluations: [{ action: READ }, { action: WRITE }] }, [true, false]],
  [
    '3.2.3',
    { subject: ALICE, action: WRITE, evaluations: [{ resource: ACTIVE }, { resource: ARCHIVED }] },
    [true, false],
  ],
  [
    '3.2.4',
    { action: WRITE, resource: ARCHIVED, evaluations: [{ subject: ALICE }, { subject: ADMIN }] },
    [false, true],
  ],
  ['3.2.5', { evaluations: [FIXTURE, { subject: BOB, action: WRITE, resource: RECORD_1 }] }, [true, false]],
  [
    '3.2.6',
    {
      subject: ALICE,
      action: READ,
      context: { time: '2025-06-27T18:03-07:00' },
      evaluations: [
        { resource: RECORD_1 },
        { resource: RECORD_2, context: { time: '2025-06-27T19:00-07:00', source: 'batch-override' } },
      ],
    },
    [true, undefined],
  ],
  [
    '3.2.7',
    { subject: ALICE, action: WRITE, resource: ACTIVE, evaluations: [{}, { resource: ARCHIVED }] },
    [true, false],
  ],
  [
    'the type of a default',
    {
      subject: ALICE,
      action: WRITE,
      resource: { type: 'record' },
      evaluations: [{ resource: { id: 'record-1', properties: { status: 'active' } } }, { resource: ARCHIVED }],
    },
    [true, false],
  ],
  ['3.4.1 one without subject', { action: READ, evaluations: [{ resource: RECORD_1 }] }, [false]],
  [
    '3.4.1 one without resource',
    {
      subject: ALICE,
      action: READ,
      options: { evaluations_semantic: 'execute_all' },
      evaluations: [{ resource: RECORD_1 }, {}],
    },
    [true, false],
  ],
  [
    'deny_on_first_deny ends at the first denial',
    {
      subject: BOB,
      resource: RECORD_1,
      options: { evaluations_semantic: 'deny_on_first_deny' },
      evaluations: [{ action: READ }, { action: WRITE }, { action: READ }],
    },
    [true, false],
  ],
  [
    'permit_on_first_permit ends at the first permit',
    {
      subject: BOB,
      resource: RECORD_1,
      options: { evaluations_semantic: 'permit_on_first_permit' },
      evaluations: [{ action: WRITE }, { action: READ }, { action: READ }],
    },
    [false, true],
  ],
];

type SearchKind = 'subject' | 'resource' | 'action';

const FIND_SUBJECTS = { subject: { type: 'user' }, action: READ, resource: RECORD_1 };
const FIND_RESOURCES = { subject: ALICE, action: READ, resource: { type: 'record' } };
const FIND_ACTIONS = { subject: ALICE, resource: RECORD_1 };

/** Searches of sections 4.2 to 4.4 and what they find at least. */
const SEARCHES: readonly (readonly [section: string, kind: SearchKind, request: object, found: readonly string[]])[] = [
  ['4.2.1', 'subject', FIND_SUBJECTS, ['alice', 'bob']],
  ['4.2.2 with a context', 'subject', { ...FIND_SUBJECTS, context: CONTEXT }, ['alice', 'bob']],
  ['4.2.3 an id is ignored', 'subject', { ...FIND_SUBJECTS, subject: ALICE }, ['alice', 'bob']],
  ['4.2.4', 'subject', { subject: { type: 'user' }, action: WRITE, resource: ARCHIVED }, ['bob']],
  ['4.3.1', 'resource', FIND_RESOURCES, ['record-1']],
  ['4.3.2 with a context', 'resource', { ...FIND_RESOURCES, context: CONTEXT }, ['record-1']],
  ['4.3.3 an id is ignored', 'resource', { ...FIND_RESOURCES, resource: RECORD_2 }, ['record-1']],
  ['4.3.4', 'resource', { subject: ADMIN, action: WRITE, resource: { type: 'record' } }, ['record-2']],
  ['4.4.1', 'action', FIND_ACTIONS, ['read', 'write']],
  ['4.4.2 with a context', 'action', { ...FIND_ACTIONS, context: CONTEXT }, ['read', 'write']],
  ['4.4.3', 'action', { subject: ADMIN, resource: ARCHIVED }, ['write']],
];

/** Searches of section 4.6, which find nothing. */
const EMPTY_SEARCHES: readonly (readonly [kind: SearchKind, request: object])[] = [
  ['action', { ...FIND_ACTIONS, subject: { type: 'user', id: 'nonexistent-user' } }],
  ['action', { ...FIND_ACTIONS, resource: { type: 'spaceship', id: 'x' } }],
  ['subject', { ...FIND_SUBJECTS, subject: { type: 'spaceship' } }],
  ['subject', { ...FIND_SUBJECTS, resource: { type: 'record', id: 'nonexistent' } }],
  ['resource', { ...FIND_RESOURCES, resource: { type: 'spaceship' } }],
  ['resource', { ...FIND_RESOURCES, subject: { type: 'spaceship', id: 'alice' } }],
];

/** Searches of section 4.7 to which the answer is 400. */
const MALFORMED_SEARCHES: readonly (readonly [kind: SearchKind, request: object])[] = [
  ['subject', { ...FIND_SUBJECTS, action: undefined }],
  ['resource', { ...FIND_RESOURCES, subject: undefined }],
  ['action', { subject: ALICE }],
  ['subject', { ...FIND_SUBJECTS, resource: { type: 'record' } }],
  ['resource', { ...FIND_RESOURCES, subject: { type: 'user' } }],
  ['action', { ...FIND_ACTIONS, subject: { type: 'user' } }],
];

function isJson({ headers }: Answer): boolean {
  return /^application\/json(;|$)/.test(headers.get('content-type') ?? '');
}

function results({ json }: Answer): object[] {
  const list = field(json, 'results');
  assert(Array.isArray(list));
  return list as object[];
}

for (const engine of ENGINES) {
  describe(`AuthZEN with an ${engine} engine`, () => {
    let authority: TestAuthority;
    let pdp: StartedPdp;
    before(async () => {
      authority = await makeAuthority('certification');
      pdp = await startPdp(engine, authority, { ...ALL_OFFERED, ...WITH_OPEN_TYPE });
      await pdp.use({ ...CERTIFICATION_FILES, ...OPEN_FILES });
    });
    after(async () => {
      await pdp?.[Symbol.asyncDispose]();
      await authority?.[Symbol.asyncDispose]();
    });

    it('Basic: decisions, and what the response looks like (2.2, 2.3, 5)', async () => {
      for (const [section, request, decision] of DECISIONS) {
        const answer = await pdp.post(EVALUATION, request);
        assert.equal(answer.status, 200, `${section}: ${answer.text}`);
        assert(isJson(answer), section);
        assert.deepEqual(answer.json, { decision }, section);
      }
    });

    it('Basic: the same request has the same decision each time (2.6)', async () => {
      for (let time = 0; time < 10; time++) {
        assert.deepEqual((await pdp.post(EVALUATION, FIXTURE)).json, { decision: true });
      }
    });

    it('Batch: decisions in order, defaults, errors of one (3.2, 3.3, 3.4.1)', async () => {
      for (const [section, request, expected] of BATCHES) {
        const answer = await pdp.post(EVALUATIONS, request);
        assert.equal(answer.status, 200, `${section}: ${answer.text}`);
        assert(isJson(answer), section);
        assert.equal(field(answer.json, 'decision'), undefined, section);
        const list = field(answer.json, 'evaluations');
        assert(Array.isArray(list), section);
        assert.equal(list.length, expected.length, section);
        for (const [index, one] of list.entries()) {
          const decision = field(one, 'decision');
          assert.equal(decision, expected[index] ?? decision, `${section} ${index}: ${answer.text}`);
          assert.equal(typeof decision, 'boolean', section);
        }
      }
    });

    it('Batch: without evaluations it is one evaluation (3.4.2, 3.4.3)', async () => {
      for (const request of [FIXTURE, { ...FIXTURE, evaluations: [] }]) {
        assert.deepEqual((await pdp.post(EVALUATIONS, request)).json, { decision: true });
      }
    });

    it('Search: finds at least what the fixture mandates, of the type that is asked for (4.2 to 4.4)', async () => {
      for (const [section, kind, request, expected] of SEARCHES) {
        const answer = await pdp.post(`${SEARCH}/${kind}`, request);
        assert.equal(answer.status, 200, `${section}: ${answer.text}`);
        assert(isJson(answer), section);
        const found = results(answer);
        const key = kind === 'action' ? 'name' : 'id';
        const names = found.map((one) => field(one, key));
        for (const name of expected) assert(names.includes(name), `${section}: ${name} in ${answer.text}`);
        const type = field(request, kind, 'type');
        for (const one of found) assert.equal(field(one, 'type'), type, section);
      }
    });

    it('Search: what it finds is permitted when it is asked for', async () => {
      for (const [section, kind, request] of SEARCHES) {
        for (const one of results(await pdp.post(`${SEARCH}/${kind}`, request))) {
          const given = field(request, kind);
          const found = kind === 'action' ? one : { ...(given as object), ...one };
          assert.deepEqual(
            (await pdp.post(EVALUATION, { ...request, [kind]: found })).json,
            { decision: true },
            section,
          );
        }
      }
    });

    it('Search: pages (4.5)', async () => {
      const first = await pdp.post(`${SEARCH}/subject`, { ...FIND_SUBJECTS, page: { limit: 1 } });
      assert.equal(first.status, 200);
      assert.equal(results(first).length, 1);
      const token = field(first.json, 'page', 'next_token');
      assert(typeof token === 'string' && token !== '');
      const changed = await pdp.post(`${SEARCH}/subject`, { ...FIND_SUBJECTS, page: { limit: 2, token } });
      assert.equal(changed.status, 400, 'the limit is not the same');
      const second = await pdp.post(`${SEARCH}/subject`, { ...FIND_SUBJECTS, page: { token } });
      assert.equal(second.status, 200);
      assert.equal(field(second.json, 'page', 'next_token'), '');
      assert.deepEqual(
        [...results(first), ...results(second)].map((one) => field(one, 'id')),
        ['alice', 'bob'],
      );
    });

    it('Search: nothing found is an empty list (4.6)', async () => {
      for (const [kind, request] of EMPTY_SEARCHES) {
        const answer = await pdp.post(`${SEARCH}/${kind}`, request);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(answer.json, { results: [] }, `${kind} ${JSON.stringify(request)}`);
      }
    });

    // No engine is asked for these.
    if (engine === 'inline') {
      it('Basic: errors are 400 (2.4), and are the same at the evaluations endpoint', async () => {
        for (const path of [EVALUATION, EVALUATIONS]) {
          for (const [section, request, headers] of MALFORMED) {
            const answer = await pdp.post(path, request, headers);
            assert.equal(answer.status, 400, `${section} at ${path}: ${answer.text}`);
            assert.equal(typeof field(answer.json, 'detail'), 'string', section);
          }
        }
      });

      it('Basic: X-Request-ID is repeated, and needed by nobody (2.5)', async () => {
        const id = 'bfe9eb29-ab87-4ca3-be83-a1d5d8305716';
        for (const path of [EVALUATION, EVALUATIONS, `${SEARCH}/subject`, `${SEARCH}/resource`, `${SEARCH}/action`]) {
          for (const body of [FIXTURE, '{']) {
            assert.equal((await pdp.post(path, body, { 'x-request-id': id })).headers.get('x-request-id'), id, path);
          }
          assert.equal((await pdp.post(path, FIXTURE)).status, 200, path);
        }
      });

      it('Search: errors are 400 (4.7)', async () => {
        for (const [kind, request] of MALFORMED_SEARCHES) {
          const answer = await pdp.post(`${SEARCH}/${kind}`, request);
          assert.equal(answer.status, 400, `${kind} ${JSON.stringify(request)}: ${answer.text}`);
        }
      });

      it('Discovery: the configuration names what is offered, by the address that was asked (6)', async () => {
        const answer = await pdp.get('/.well-known/authzen-configuration');
        assert.equal(answer.status, 200);
        assert(isJson(answer));
        assert.deepEqual(answer.json, {
          policy_decision_point: pdp.url,
          access_evaluation_endpoint: `${pdp.url}${EVALUATION}`,
          access_evaluations_endpoint: `${pdp.url}${EVALUATIONS}`,
          search_subject_endpoint: `${pdp.url}${SEARCH}/subject`,
          search_resource_endpoint: `${pdp.url}${SEARCH}/resource`,
          search_action_endpoint: `${pdp.url}${SEARCH}/action`,
        });
      });
    }

    if (engine !== 'external') hostileRequests(engine, () => pdp);

    it('Interop: decides for Rick, Morty, Summer, Beth and Jerry as documented', async () => {
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

    it('Interop: finds subjects, resources and actions as documented', async () => {
      await pdp.use(SEARCH_FILES);
      const sorted = (list: unknown): string[] =>
        (list as object[]).map((one) => String(field(one, 'id') ?? field(one, 'name'))).sort();
      for (const [kind, cases] of Object.entries<readonly ScenarioCase[]>(INTEROP_SEARCHES)) {
        for (const { request, expected } of cases) {
          const answer = await pdp.post(`/access/v1/search/${kind}`, request);
          assert.deepEqual(sorted(field(answer.json, 'results')), sorted(expected), JSON.stringify(request));
        }
      }
    });
  });
}
