import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAcceptableOpaVersion, parseOpaVersion } from './opa-version.js';

test('reads the version from the output of "opa version"', () => {
  assert.equal(parseOpaVersion('Version: 1.22.0\nBuild Commit: \nGo Version: go1.26.8\n'), '1.22.0');
  assert.equal(parseOpaVersion('Version: v1.4.2-dev\n'), '1.4.2-dev');
});

test('reads no version from the output of another program', () => {
  assert.equal(parseOpaVersion('Go Version: 1.26.8\n'), undefined);
  assert.equal(parseOpaVersion('opa 1.0.0\n'), undefined);
  assert.equal(parseOpaVersion(''), undefined);
});

test('accepts 1.0.0 and newer, compared as numbers', () => {
  for (const version of ['1.0.0', '1.0.1', '1.9.0', '1.10.0', '2.0.0', '1.22.0-dev']) {
    assert.equal(isAcceptableOpaVersion(version), true, version);
  }
  for (const version of ['0.70.0', '0.9.12', '0.99.99-rc1']) {
    assert.equal(isAcceptableOpaVersion(version), false, version);
  }
});
