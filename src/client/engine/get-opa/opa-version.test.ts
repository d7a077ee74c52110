import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAcceptableOpaVersion, OPA_SHA256, opaAsset, opaFileName, parseOpaVersion } from './opa-version.js';

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

test('names the official asset of each platform that has one', () => {
  assert.equal(opaAsset({ os: 'linux', arch: 'x64' }), 'opa_linux_amd64_static');
  assert.equal(opaAsset({ os: 'linux', arch: 'arm64' }), 'opa_linux_arm64_static');
  assert.equal(opaAsset({ os: 'darwin', arch: 'arm64' }), 'opa_darwin_arm64');
  assert.equal(opaAsset({ os: 'win32', arch: 'x64' }), 'opa_windows_amd64.exe');
  assert.equal(opaAsset({ os: 'freebsd', arch: 'x64' }), undefined);
  assert.equal(opaFileName('win32'), 'opa.exe');
  assert.equal(opaFileName('linux'), 'opa');
});

test('each platform with an asset has a line for its checksum: all are whole SHA-256, or none is known yet', () => {
  const assets = ['linux/x64', 'linux/arm64', 'darwin/x64', 'darwin/arm64', 'win32/x64'].map((name) => {
    const [os = '', arch = ''] = name.split('/');
    return opaAsset({ os, arch });
  });
  assert.deepEqual(Object.keys(OPA_SHA256).sort(), assets.sort());
  for (const [asset, sha256] of Object.entries(OPA_SHA256)) {
    assert.ok(assets.includes(asset), asset);
    assert.match(sha256, /^(?:[0-9a-f]{64})?$/);
  }
  assert.equal(
    new Set(Object.values(OPA_SHA256).map(({ length }) => length)).size,
    1,
    'some are known and some are not',
  );
});
