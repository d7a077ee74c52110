import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from '../../test/support/repo.js';
import { Secret } from '../lib/observe/log.js';
import { equalsSecret } from './timing-safe-equal.js';

test('equal texts are equal, others are not, whatever their length', () => {
  const secret = new Secret('master');
  assert.equal(equalsSecret('master', secret), true);
  for (const other of ['', 'maste', 'masterr', 'Master', 'm'.repeat(10_000)]) {
    assert.equal(equalsSecret(other, secret), false, other.slice(0, 20));
  }
});

test('secrets are compared in constant time, and the token route compares in no other way', () => {
  const read = (file: string) => readFileSync(join(repoRoot(), 'src', file), 'utf8');
  assert.match(read('auth/timing-safe-equal.ts'), /timingSafeEqual\(/);
  const route = read('server/routes/token.ts');
  assert.match(route, /equalsSecret\(given, masterToken\)/);
  assert.doesNotMatch(route, /masterToken\.reveal/);
});
