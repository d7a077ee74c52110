import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type InstanceFacts, instanceState } from './instance-rules.js';

const WELL: InstanceFacts = { ageMs: 0, isDraining: false, isUp: true, behind: 0, backboneMs: 3 };

/** What differs from an instance that is well; the first of several rules decides. */
const TABLE: readonly (readonly [string, Partial<InstanceFacts>])[] = [
  ['in_step', {}],
  ['in_step', { backboneMs: null }],
  ['in_step', { ageMs: 6900 }],
  ['slow_backbone', { backboneMs: 51 }],
  ['behind', { behind: 1 }],
  ['behind', { behind: 1, backboneMs: 900 }],
  ['refuses_updates', { isWritable: false, behind: 3, backboneMs: 900 }],
  ['behind', { isWritable: true, behind: 3 }],
  ['backbone_away', { isUp: false, behind: 3 }],
  ['backbone_away', { isUp: false, isWritable: false }],
  ['draining', { isDraining: true, isUp: false, behind: 3 }],
  ['silent', { ageMs: 7001 }],
  ['silent', { ageMs: 7001, isDraining: true, isUp: false, behind: 3, backboneMs: 900 }],
];

for (const [state, facts] of TABLE) {
  test(`${JSON.stringify(facts)} is ${state}`, () => assert.equal(instanceState({ ...WELL, ...facts }), state));
}
