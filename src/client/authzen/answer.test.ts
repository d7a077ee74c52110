import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { printJson } from '../../lib/json/json-text.js';
import { decisionOf, foundOf } from './answer.js';

const isInvalid = (error: unknown): boolean =>
  error instanceof SyncError && error.code === 'decision_result_invalid' && error.message.includes('authzen/allow');

const decided = (value: string | undefined): string => printJson(decisionOf('authzen/allow', value));

test('a decision is a boolean, an object with one, or no value at all', () => {
  assert.equal(decided('true'), '{"decision":true}');
  assert.equal(decided('false'), '{"decision":false}');
  assert.equal(decided(undefined), '{"decision":false}');
  assert.equal(decided('{"decision":true}'), '{"decision":true}');
  assert.equal(decided('{"decision":false,"more":1}'), '{"decision":false}');
  assert.equal(
    decided('{"context":{"id":"r1","n":1.0,"big":12345678901234567890},"decision":false}'),
    '{"decision":false,"context":{"id":"r1","n":1.0,"big":12345678901234567890}}',
  );
});

test('no other value is taken for a decision', () => {
  for (const value of [
    ...['1', '0', '"true"', 'null', '[]', '[true]', '{}', '{"allow":true}', '{"decision":"true"}', '{"decision":null}'],
    ...['{"decision":true,"context":1}', '{"decision":true,"context":null}', '{"decision":true,"context":[]}'],
  ]) {
    assert.throws(() => decisionOf('authzen/allow', value), isInvalid, value);
  }
});

const found = (value: string | undefined, kind: 'subject' | 'resource' | 'action' = 'subject'): string =>
  printJson(foundOf('authzen/allow', value, { kind, type: 'user' }));

test('a search finds entities, texts that stand for them, and nothing where the rule has no value', () => {
  assert.equal(found(undefined), '{"results":[]}');
  assert.equal(found('[]'), '{"results":[]}');
  assert.equal(found('["ann"]'), '{"results":[{"type":"user","id":"ann"}]}');
  assert.equal(found('["read","wr\\"ite"]', 'action'), '{"results":[{"name":"read"},{"name":"wr\\"ite"}]}');
  assert.equal(
    found('{"results":[{"type":"user","id":"ann","properties":{"n":1.0}}],"context":{"of":1e1}}'),
    '{"results":[{"type":"user","id":"ann","properties":{"n":1.0}}],"context":{"of":1e1}}',
  );
});

test('entities of another type are left out', () => {
  const list = '[{"type":"group","id":"g"},{"type":"us\\u0065r","id":"ann"}]';
  assert.equal(found(list), '{"results":[{"type":"us\\u0065r","id":"ann"}]}');
});

test('no other value is taken for a list of entities', () => {
  for (const value of [
    'true',
    '{}',
    '{"results":1}',
    '{"results":[],"context":1}',
    '[1]',
    '[{"id":"x"}]',
    '[{"type":1,"id":"x"}]',
    '[null]',
  ]) {
    assert.throws(() => found(value), isInvalid, value);
  }
  assert.throws(() => found('[{"type":"user","id":"x"}]', 'action'), isInvalid);
});
