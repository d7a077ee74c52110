import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { EngineName, StartedPdp } from './authzen.js';
import { field } from './http.js';

const EVALUATION = '/access/v1/evaluation';
const EVALUATIONS = '/access/v1/evaluations';

const ALICE = '{"type":"user","id":"alice"}';
const BOB = '{"type":"user","id":"bob"}';
const RECORD = '{"type":"record","id":"record-1"}';
const WRITE = '{"name":"write"}';
const PERMITTED = `{"subject":${ALICE},"action":${WRITE},"resource":${RECORD}}`;
const DENIED = `{"subject":${BOB},"action":${WRITE},"resource":${RECORD}}`;

/** Settings beside which {@link hostileRequests} finds what it needs, and the module that they name. */
export const WITH_OPEN_TYPE = {
  SYNC_AUTHZEN_DECISION: JSON.stringify([{ resource_type: 'open', path: 'open/allow' }, { path: 'authzen/allow' }]),
} as const;
export const OPEN_FILES = { 'open.rego': 'package open\n\nallow := true\n' } as const;

/**
 * What a caller of the AuthZEN API can send to get a permit that the policy does not give, to reach another rule, or to keep client and
 * engine busy: duplicate and prototype names, paths in place of types, depth, long lists, defaults that multiply.
 * The inputs of an inline and of an embedded engine take different ways to the policy: by OPA's REST API, as for an external one, or into
 * memory of ours. What is refused before an engine is asked needs one of them.
 */
export function hostileRequests(engine: EngineName, started: () => StartedPdp): void {
  describe(`hostile AuthZEN requests, ${engine} engine`, () => {
    let pdp: StartedPdp;
    let ownNames: readonly string[];
    before(() => {
      pdp = started();
      ownNames = Object.getOwnPropertyNames(Object.prototype);
    });

    async function assertSound(): Promise<void> {
      assert.deepEqual((await pdp.post(EVALUATION, PERMITTED)).json, { decision: true });
      assert.deepEqual((await pdp.post(EVALUATION, DENIED)).json, { decision: false });
      assert.deepEqual(Object.getOwnPropertyNames(Object.prototype), ownNames);
      assert.equal(({} as Record<string, unknown>).polluted, undefined);
    }

    it('a name that stands twice never means one thing here and another elsewhere', async () => {
      for (const body of [
        `{"subject":${BOB},"action":${WRITE},"resource":${RECORD},"subject":${ALICE}}`,
        `{"subject":${BOB},"action":${WRITE},"resource":${RECORD},"\\u0073ubject":${ALICE}}`,
        `{"subject":{"type":"user","id":"bob","id":"alice"},"action":${WRITE},"resource":${RECORD}}`,
        `{"subject":${BOB},"action":{"name":"write","name":"read"},"resource":${RECORD}}`,
      ]) {
        assert.equal((await pdp.post(EVALUATION, body)).status, 400, body);
      }
      const inBatch = `{"action":${WRITE},"resource":${RECORD},"evaluations":[{"subject":${BOB},"subject":${ALICE}}]}`;
      const answer = await pdp.post(EVALUATIONS, inBatch);
      assert.equal(field(answer.json, 'evaluations', 0, 'decision'), false, answer.text);
      assert.equal(field(answer.json, 'evaluations', 0, 'context', 'error', 'status'), 400, answer.text);
    });

    it('names of prototypes are names like all others, and stand for nothing', async () => {
      for (const name of ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty']) {
        for (const body of [
          `{"${name}":${PERMITTED}}`,
          `{"subject":{"${name}":${ALICE}},"action":${WRITE},"resource":${RECORD}}`,
          `{"subject":${ALICE},"action":{"${name}":{"name":"write"}},"resource":${RECORD}}`,
        ]) {
          assert.equal((await pdp.post(EVALUATION, body)).status, 400, body);
        }
        const inside = `{"subject":{"type":"user","id":"bob","properties":{"${name}":{"role":"admin","polluted":1}}},"action":${WRITE},"resource":${RECORD},"context":{"${name}":{"polluted":1}}}`;
        assert.deepEqual((await pdp.post(EVALUATION, inside)).json, { decision: false }, inside);
        const unknown = `{"subject":{"type":"user","id":"${name}"},"action":{"name":"${name}"},"resource":{"type":"${name}","id":"${name}"}}`;
        assert.deepEqual((await pdp.post(EVALUATION, unknown)).json, { decision: false }, unknown);
        const semantic = `{"subject":${BOB},"action":${WRITE},"resource":${RECORD},"evaluations":[{}],"options":{"evaluations_semantic":"${name}"}}`;
        assert.equal((await pdp.post(EVALUATIONS, semantic)).status, 400, semantic);
      }
      await assertSound();
    });

    it('no text of a request leads to another rule', async () => {
      const texts = [
        ...[
          '../open',
          'open/../open',
          '../../open/allow',
          'open%2fallow',
          'open/allow',
          'open?x',
          'open#',
          'OPEN',
          ' open',
        ],
        ...['open\u0000', 'data.open.allow', '"},"x":{"', '\u2028open', 'open\n'],
      ];
      for (const text of texts) {
        const json = JSON.stringify(text);
        for (const body of [
          `{"subject":${BOB},"action":${WRITE},"resource":{"type":${json},"id":"record-1"}}`,
          `{"subject":{"type":${json},"id":"bob"},"action":${WRITE},"resource":${RECORD}}`,
          `{"subject":${BOB},"action":{"name":${json}},"resource":${RECORD}}`,
          `{"subject":${BOB},"action":${WRITE},"resource":{"type":"record","id":${json}}}`,
        ]) {
          const answer = await pdp.post(EVALUATION, body);
          assert.deepEqual(answer.json, { decision: false }, `${body}: ${answer.text}`);
        }
      }
      const chosen = `{"subject":${BOB},"action":${WRITE},"resource":{"type":"open","id":"x"}}`;
      assert.deepEqual((await pdp.post(EVALUATION, chosen)).json, { decision: true });
    });

    it('bytes that are no text, and numbers of any size, do no harm', async () => {
      const withNumber = (number: string): string =>
        `{"subject":{"type":"user","id":"bob","properties":{"n":${number}}},"action":${WRITE},"resource":${RECORD}}`;
      // OPA compares or adds some of these for minutes, or panics.
      for (const number of [
        '1e400',
        '-1e400',
        '1e-400',
        '1e9999999',
        '1e-9999999',
        '1e99999999999999',
        '9'.repeat(10_000),
      ]) {
        const answer = await pdp.post(EVALUATION, withNumber(number));
        assert.equal(answer.status, 400, `${number.slice(0, 20)}: ${answer.text}`);
      }
      for (const number of ['0.1e1', '-0', '12345678901234567890', '1e308']) {
        assert.deepEqual((await pdp.post(EVALUATION, withNumber(number))).json, { decision: false }, number);
      }
      for (const text of ['\\ud800', '\\udfff\\ud800', 'ann\\udc00']) {
        const body = `{"subject":{"type":"user","id":"${text}"},"action":${WRITE},"resource":${RECORD}}`;
        assert.equal((await pdp.post(EVALUATION, body)).status, 400, text);
      }
      await assertSound();
    });

    if (engine !== 'inline') return;

    it('depth, long lists and defaults that multiply are refused before the engine is asked', async () => {
      const nested = (open: string, close: string): string =>
        `{"subject":${ALICE},"action":${WRITE},"resource":${RECORD},"context":{"x":${open.repeat(100_000)}1${close.repeat(100_000)}}}`;
      const many = `{"subject":${ALICE},"action":${WRITE},"resource":${RECORD},"evaluations":[${'{},'.repeat(300_000)}{}]}`;
      const pad = 'x'.repeat(900_000);
      const multiplied = `{"subject":${ALICE},"action":${WRITE},"resource":${RECORD},"context":{"pad":"${pad}"},"evaluations":[${'{},'.repeat(900)}{}]}`;
      for (const body of [nested('[', ']'), nested('{"a":', '}'), many, multiplied]) {
        for (const path of [EVALUATIONS, ...(body === many || body === multiplied ? [] : [EVALUATION])]) {
          const answer = await pdp.post(path, body);
          assert.equal(answer.status, 400, `${path}: ${answer.text.slice(0, 200)}`);
          assert(answer.text.length < 1000, 'a short answer');
        }
      }
      const large = `{"subject":${ALICE},"action":${WRITE},"resource":${RECORD},"context":{"pad":"${'x'.repeat(2 * 1024 * 1024)}"}}`;
      assert.equal((await pdp.post(EVALUATION, large)).status, 413);
      await assertSound();
    });

    it('a page token that is made up leads nowhere', async () => {
      const search = (page: unknown) =>
        pdp.post('/access/v1/search/subject', {
          subject: { type: 'user' },
          action: { name: 'read' },
          resource: { type: 'record', id: 'record-1' },
          page,
        });
      const good = String(field((await search({ limit: 1 })).json, 'page', 'next_token'));
      const text = Buffer.from(good, 'base64url').toString();
      for (const forged of ['', '-1', '1e9', '__proto__', '999999999999999']) {
        const token = Buffer.from(text.replace(/^\d+/, forged)).toString('base64url');
        const answer = await search({ limit: 1, token });
        const isEmpty = answer.status === 200 && JSON.stringify(field(answer.json, 'results')) === '[]';
        assert(answer.status === 400 || isEmpty, `${forged}: ${answer.text}`);
      }
      for (const token of ['../..', 'x'.repeat(100_000), '\u0000', {}, 1]) {
        assert.equal((await search({ limit: 1, token })).status, 400);
      }
      await assertSound();
    });

    it('a web page of another site asks nothing, with or without asking the browser first', async () => {
      const origin = { origin: 'https://evil.example' };
      assert.equal((await pdp.post(EVALUATION, PERMITTED, origin)).status, 403);
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
        assert.equal((await pdp.post(EVALUATION, PERMITTED, { 'content-type': type })).status, 400);
      }
    });
  });
}
