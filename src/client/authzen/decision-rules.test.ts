import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '../../lib/settings/options.js';
import { CLIENT_SETTINGS } from '../options.js';
import { actionSearchRules, decisionRules, pathOf, rulesText } from './decision-rules.js';

function problemOf(text: string, schema: typeof decisionRules | typeof actionSearchRules = decisionRules): string {
  const { error } = schema.safeParse(rulesText(text));
  return error?.issues.map(({ message }) => message).join('; ') ?? '';
}

test('a path alone answers every request', () => {
  const rules = decisionRules.parse(rulesText(' authzen/allow '));
  assert.equal(pathOf(rules, { subjectType: 'user', action: 'read', resourceType: 'todo' }), 'authzen/allow');
});

test('the first row that fits answers, by subject type, action and resource type', () => {
  const rules = decisionRules.parse([
    { subject_type: 'service', path: 'services/allow' },
    { resource_type: 'todo', action: 'read', path: 'todo/read' },
    { resource_type: 'todo', path: 'todo/allow' },
    { path: 'authzen/allow' },
  ]);
  const cases = [
    ['service', 'read', 'todo', 'services/allow'],
    ['user', 'read', 'todo', 'todo/read'],
    ['user', 'write', 'todo', 'todo/allow'],
    ['user', 'read', 'Todo', 'authzen/allow'],
    ['user', undefined, 'todo', 'todo/allow'],
  ] as const;
  for (const [subjectType, action, resourceType, path] of cases) {
    assert.equal(
      pathOf(rules, { subjectType, action, resourceType }),
      path,
      `${subjectType} ${action} ${resourceType}`,
    );
  }
});

test('a path has no way out of itself, and is one of a rule', () => {
  for (const text of [
    '',
    'allow',
    '/authzen/allow',
    'authzen/allow/',
    'authzen//allow',
    'authzen/../system/authz',
    './authzen',
    'authzen/%2e%2e/allow',
    'authzen.allow',
    'authzen/allow?metrics',
    'authzen/{resource.type}',
    'data/authzen/allow',
    'authzen/allow\n',
    `a/${'b'.repeat(101)}`,
    `a${'/a'.repeat(21)}`,
  ]) {
    const trimmed = text.trim();
    if (trimmed === 'authzen/allow') continue; // white space around it is dropped
    assert.match(problemOf(text), /must be the path/, JSON.stringify(text));
  }
});

test('a list of rows has one row for the rest, at its end', () => {
  assert.match(problemOf('[]'), /at least one row/);
  assert.match(problemOf('[{"action":"read","path":"a/b"}]'), /the last row must have a path only/);
  assert.match(problemOf('[{"path":"a/b"},{"path":"a/c"}]'), /row 0 fits every request/);
  assert.match(problemOf('[{"action":"x","path":"a/b"},{"path":"a/c"},{"path":"a/d"}]'), /row 1 fits every request/);
  assert.notEqual(problemOf('[{"path":"a/b","acton":"read"}]'), '');
  assert.notEqual(problemOf('[{"path":"a/../b"}]'), '');
});

test('a row of an action search has no action', () => {
  const text = '[{"action":"read","path":"a/b"},{"path":"a/c"}]';
  assert.equal(problemOf(text), '');
  assert.match(problemOf(text, actionSearchRules), /must have no action/);
  assert.equal(problemOf('a/b', actionSearchRules), '');
});

test('a setting that is no mapping is named at the start, with what is wrong', () => {
  const load = (env: Record<string, string>) => () => readSettings(CLIENT_SETTINGS, { env });
  assert.throws(load({ SYNC_AUTHZEN_DECISION: 'allow' }), /SYNC_AUTHZEN_DECISION .*must be the path of a rule/);
  assert.throws(load({ SYNC_AUTHZEN_DECISION: '[{"path":' }), /SYNC_AUTHZEN_DECISION must be JSON/);
  assert.throws(load({ SYNC_AUTHZEN_SEARCH_SUBJECT: '[{"path":"../x"}]' }), /SYNC_AUTHZEN_SEARCH_SUBJECT at .*must be/);
});
