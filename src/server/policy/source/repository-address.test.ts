import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../../../test/support/any-character.js';
import { cpuTimer } from '../../../../test/support/cpu-time.js';
import { isRepository, repositoryIdentity, repositoryKey } from './repository-address.js';

test('every way to write the address of a repository has one normal form', () => {
  const rows: Record<string, readonly string[]> = {
    'git.example.com/org/repo': [
      'https://git.example.com/org/repo.git',
      'https://git.example.com/org/repo',
      'https://git.example.com/org/repo.git/',
      'https://git.example.com//org//repo/',
      'HTTPS://Git.Example.COM/Org/Repo.git',
      'https://git.example.com:443/org/repo',
      'http://git.example.com:80/org/repo',
      'https://user:to%40ken@git.example.com/org/repo.git?x=1#y',
      'git@git.example.com:org/repo.git',
      'git.example.com:org/repo',
      'git@Git.Example.com:/org/repo.git',
      'ssh://git@git.example.com/org/repo.git',
      'ssh://git@git.example.com:22/org/repo.git',
      'git://git.example.com/org/repo.git',
      'git://git.example.com:9418/org/repo.git',
    ],
    'git.example.com:8443/org/repo': ['https://git.example.com:8443/org/repo.git'],
    'git.example.com:443/org/repo': ['ssh://git@git.example.com:443/org/repo.git'],
    'dev.azure.com/org/my project/_git/repo': [
      'https://org@dev.azure.com/org/My%20Project/_git/repo',
      'https://dev.azure.com/org/My Project/_git/repo',
    ],
    '[::1]/org/repo': ['https://[::1]/org/repo.git', 'git@[::1]:org/repo.git'],
    '/srv/git/repo': ['file:///srv/git/repo.git', '/srv/git/repo.git'],
    'h/100%': ['https://h/100%'],
  };
  for (const [key, urls] of Object.entries(rows)) {
    for (const url of urls) assert.equal(repositoryKey(url), key, url);
  }
  for (const url of ['', 'https://', 'https://[x/org', `https://h/${'a'.repeat(3_000)}`]) {
    assert.equal(repositoryKey(url), undefined, url);
  }
});

test('a payload is about the configured repository by one of its URLs or one of its names', () => {
  const rows: [configured: string, urls: string[], names: string[], is: boolean][] = [
    ['https://h/org/repo.git', ['git@h:org/repo.git'], [], true],
    ['git@h:org/repo.git', ['https://h/org/repo'], [], true],
    ['git@h:org/repo.git', [], ['org/repo'], true],
    ['ssh://git@h:2222/org/repo.git', ['ssh://git@h:2222/org/repo.git', 'https://h/org/repo.git'], [], true],
    ['https://u:p@h/org/repo', ['https://other/org/repo'], ['org/repo'], true],
    ['https://h/Org/Repo', [], ['org/repo'], true],
    ['https://h/org/repo', ['https://h/org/repo2', 'https://h/org'], [], false],
    ['https://h/org/repo', ['https://other/org/repo'], [], false],
    ['https://h/org/repo', ['https://h:8443/org/repo'], [], false],
    ['https://h/org/repo', [], ['repo', 'org', 'x/org/repo', ''], false],
    ['https://h/org/repo', [], [], false],
    ['https://', ['https://'], [''], false],
  ];
  for (const [configured, urls, names, is] of rows) {
    assert.equal(isRepository(configured, { urls, names }), is, JSON.stringify([configured, urls, names]));
  }
});

test('no text breaks the normal form, and what is normal stays so', () => {
  const piece = fc.constantFrom('https://', 'git@', '[', ']', ':', '/', '%', '%zz', '.git', '@', 'h', '\n', '\0', '?');
  const hostile = fc.oneof(
    fc.string({ unit: ANY_CHARACTER }),
    fc.array(piece, { maxLength: 12 }).map((all) => all.join('')),
  );
  fc.assert(
    fc.property(hostile, (text) => {
      repositoryKey(text);
      isRepository(text, { urls: [text], names: [text] });
    }),
    { numRuns: 2_000 },
  );
  const spentMs = cpuTimer();
  for (const unit of ['@', ':', '[', '/', '.git']) repositoryKey(unit.repeat(Math.floor(2_048 / unit.length)));
  assert(spentMs() < 500);
});

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
