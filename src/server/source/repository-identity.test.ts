import assert from 'node:assert/strict';
import { test } from 'node:test';
import { repositoryIdentity } from './repository-identity.js';

test('spellings of one repository are one', () => {
  for (const spellings of [
    [
      'https://example.com/org/repo',
      'https://example.com/org/repo/',
      'https://EXAMPLE.com/org/repo.git',
      'HTTPS://example.com:443/org//repo.git/',
      'https://user:secret@example.com/org/repo.git',
      'https://example.com/%6Frg/repo',
    ],
    [
      'git@example.com:org/repo.git',
      'example.com:org/repo',
      'other@Example.com:/org/repo/',
      'ssh://git@example.com/org/repo.git',
      'ssh://EXAMPLE.com:22/org/repo',
      'ssh://***@example.com/org/repo',
      'git+ssh://git@example.com/org/repo',
    ],
    ['ssh://git@[::1]:22/r', 'git@[::1]:r'],
    ['git://example.com:9418/r', 'git://example.com/r.git'],
    ['/srv/my repo', '/srv/my repo/', 'file:///srv/my%20repo', 'file:///srv//my repo/'],
  ]) {
    assert.deepEqual(
      new Set(spellings.map(repositoryIdentity)).size,
      1,
      JSON.stringify(spellings.map(repositoryIdentity)),
    );
  }
});

test('what may be another repository is another one', () => {
  const all = [
    'https://example.com/org/repo',
    'http://example.com/org/repo',
    'https://example.com/Org/repo',
    'https://example.com/org/repo2',
    'https://example.com:8443/org/repo',
    'https://example.com/org/repo?ref=1',
    'https://other.example.com/org/repo',
    'ssh://example.com/org/repo',
    'ssh://example.com:2222/org/repo',
    'git://example.com/org/repo',
    '/org/repo',
    '/org/repo.git',
    '/org/Repo',
    '/',
    'https://[not a URL',
    '',
  ];
  assert.equal(new Set(all.map(repositoryIdentity)).size, all.length, JSON.stringify(all.map(repositoryIdentity)));
});
