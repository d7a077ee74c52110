import assert from 'node:assert/strict';
import { test } from 'node:test';
import { barText } from './live-lines.js';

const TABLE: readonly [what: string, left: number[], right: number[], width: number, bar: string][] = [
  ['nothing', [0, 0], [0], 10, '          '],
  ['all hold it', [122, 0], [0], 10, '##########'],
  ['half', [5, 5], [0], 10, '#####+++++'],
  ['one that refuses is seen', [2999, 0], [1], 10, '#########x'],
  ['all but one is not all', [999, 1], [0], 10, '#########+'],
  ['left and right', [2, 2], [1], 10, '####++++xx'],
  ['narrower than its parts', [1, 1], [1], 2, '  '],
  ['no width', [1, 1], [1], 0, ''],
];

for (const [what, [held = 0, told = 0], [refused = 0], width, bar] of TABLE) {
  test(`a bar: ${what}`, () => {
    const left = [
      { count: held, sign: '#' },
      { count: told, sign: '+' },
    ];
    const total = held + told + refused;
    assert.equal(barText(left, [{ count: refused, sign: 'x' }], { total, width, track: ' ' }), bar);
  });
}
