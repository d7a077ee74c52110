import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requirePackages } from './optional-package.js';

const RANGES = { one: '^1.2.0', '@a/two': '~2.0.0' };

test('a package that is not installed is named with the command that installs it', () => {
  const lookUp = { ranges: RANGES, isInstalled: () => false };
  assert.throws(() => requirePackages('Redis at host:6379', ['one'], lookUp), {
    code: 'package_missing',
    retryable: false,
    message: 'Redis at host:6379 needs the package one; install with: npm install one@^1.2.0',
  });
});

test('of several packages those that are missing are named, and all are installed together', () => {
  const lookUp = { ranges: RANGES, isInstalled: (name: string) => name === 'one' };
  assert.throws(() => requirePackages('NATS', ['one', '@a/two'], lookUp), {
    message: 'NATS needs the package @a/two; install with: npm install one@^1.2.0 @a/two@~2.0.0',
  });
});

test('the optional peers of this package are found where they are installed, by the ranges of package.json', () => {
  requirePackages('a test', ['pg', 'ioredis', '@nats-io/jetstream', '@nats-io/transport-node']);
  assert.throws(() => requirePackages('a test', ['pg', 'no-such-package-of-ours']), {
    message: /needs the package no-such-package-of-ours; install with: npm install pg@\^8\.\d+\.\d+ /,
  });
});
