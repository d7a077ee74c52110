import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { repoRoot } from './support/repo.js';

/** A call that may write a line of level `warn` or above. */
const LOUD_CALL = /\b\w*[lL]og(?:ger)?(?:\(\))?(?:\.(?:warn|error)|\[[^\]]*\])\(/g;
/** What a call says of a failure without its code and remedy. */
const BARE_FAILURE = /\berr(?:or)?:|errorText\(/;

/** The arguments of a call that begins at an index. */
function argumentsAt(text: string, start: number): string {
  let depth = 1;
  let at = start;
  for (; depth > 0 && at < text.length; at++) {
    if (text[at] === '(') depth++;
    if (text[at] === ')') depth--;
  }
  return text.slice(start, at - 1);
}

it('every line of level warn and above that tells of a failure has its code and remedy', () => {
  const src = join(repoRoot(), 'src');
  let calls = 0;
  for (const file of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue;
    const text = readFileSync(join(src, file), 'utf8');
    for (const match of text.matchAll(LOUD_CALL)) {
      calls++;
      const given = argumentsAt(text, match.index + match[0].length);
      const before = text.slice(0, match.index);
      // The fields may have a name.
      const name = /^(\w+),/.exec(given)?.[1];
      const declared = name === undefined ? -1 : before.lastIndexOf(`const ${name} = `);
      const fields = declared < 0 ? given : `${text.slice(declared, before.indexOf(';', declared))} ${given}`;
      const isBare = BARE_FAILURE.test(fields) && !/failureFields\(|\.\.\.failed|\.\.\.known|remedy/.test(fields);
      assert(!isBare, `src/${file} logs a failure without failureFields: ${given.slice(0, 200)}`);
    }
  }
  assert(calls > 40, `only ${calls} calls were found`);
});

/** Any call that writes a line. */
const CALL = /\b\w*[lL]og(?:ger)?(?:\(\))?(?:\.(?:debug|info|warn|error)|\[[^\]]*\])\(/g;

it('no line has a field of its own under a name that every line has', () => {
  const src = join(repoRoot(), 'src');
  const found: string[] = [];
  for (const file of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue;
    const text = readFileSync(join(src, file), 'utf8');
    for (const match of text.matchAll(CALL)) {
      const given = argumentsAt(text, match.index + match[0].length);
      const [fields = ''] = /^\s*\{[\s\S]*?\}/.exec(given) ?? [];
      if (/[{,]\s*(?:level|time|name|msg|component)\s*[,:}]/.test(fields))
        found.push(`src/${file}: ${given.slice(0, 100)}`);
    }
  }
  assert.deepEqual(found, []);
});
