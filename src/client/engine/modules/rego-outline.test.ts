import assert from 'node:assert/strict';
import { it } from 'node:test';
import { closedModule, isClosedModule, regoOutline } from './rego-outline.js';

const TEXT = `# package no
package app["x y"]

import data.lib.users as people
import rego.v1

default allow := false

allow if {
	input.user in people.admins
	not banned(input.user, {"a": [1, 2]})
}

banned(user, {"a": [_, _]}) if user == "data.no"

now() := time.now_ns()

deny contains msg if {
	msg := sprintf("%v", [data.limits[input.kind].max])
}

a.b.c := \`data.no\`
`;

it('the outline of a module has what it defines, and what it reads', () => {
  const { package: place, heads, words, refs } = regoOutline(TEXT);
  assert.deepEqual(place, ['app', 'x y']);
  assert.deepEqual(Object.fromEntries(heads), {
    allow: { kind: 'rule' },
    banned: { kind: 'function', arguments: 2 },
    now: { kind: 'function', arguments: 0 },
    deny: { kind: 'set' },
    a: { kind: 'rule' },
  });
  assert.deepEqual(refs, [['lib', 'users'], ['limits']]);
  for (const name of ['banned', 'people', 'msg']) assert(words.has(name), name);
  for (const name of ['allow', 'deny', 'admins', 'no']) assert(!words.has(name), name);
});

it('a closed module has the same names, and is known as one', () => {
  const closed = closedModule('package app\n\nallow if f(1)\n\nf(_) := 1\n\ndeny contains 1\n') ?? '';
  assert.deepEqual([...regoOutline(closed).heads.keys()].slice(0, 3), ['allow', 'f', 'deny']);
  assert.equal(closed.match(/^(?:allow|f\(_\)) := json\.unmarshal\("[12]"\)$/gm)?.length, 4);
  assert.deepEqual([isClosedModule(closed), isClosedModule('package app\n')], [true, false]);
  assert.equal(closedModule('# nothing\n'), undefined);
});

it('texts that end too early, or nest deeply, are read all the same', () => {
  for (const rego of [
    'package a\nx := "',
    'package a\nx := `',
    'package a\nf(',
    `package a\nx := ${'['.repeat(100_000)}`,
    '$"$"',
  ]) {
    regoOutline(rego);
  }
});
