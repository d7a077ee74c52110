import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { parseGitRemote, sshCommand } from './git-remote.js';

test('credentials of an http URL become a header for this URL and leave the URL', () => {
  const remote = parseGitRemote('https://us%40er:p%2Fw@example.com/a/b.git');
  assert.equal(remote.url, 'https://example.com/a/b.git');
  assert.equal(remote.display, 'https://example.com/a/b.git');
  const basic = Buffer.from('us@er:p/w').toString('base64');
  assert.deepEqual(remote.config, [['http.https://example.com/a/b.git.extraHeader', `Authorization: Basic ${basic}`]]);
  assert.deepEqual(new Set(remote.secrets), new Set(['p/w', 'p%2Fw', basic]));
});

test('a user name alone is a token, and as secret as one', () => {
  const remote = parseGitRemote('https://tok123@example.com/r');
  assert.equal(remote.url, 'https://example.com/r');
  assert(remote.secrets.includes('tok123'));
  assert.equal(remote.config[0]?.[1], `Authorization: Basic ${Buffer.from('tok123:').toString('base64')}`);
});

test('other forms stay as they are, local paths become absolute', () => {
  const table: Record<string, string> = {
    'git@example.com:a/b.git': 'git@example.com:a/b.git',
    'ssh://git@example.com:22/a': 'ssh://git@example.com:22/a',
    'ssh://git:pw@example.com/a': 'ssh://git@example.com/a',
    'file:///srv/repo': 'file:///srv/repo',
    'https://example.com/r': 'https://example.com/r',
    '/srv/repo': '/srv/repo',
    './repo': resolve('repo'),
  };
  for (const [text, url] of Object.entries(table)) {
    assert.equal(parseGitRemote(text).url, url);
    assert.deepEqual(parseGitRemote(text).config, []);
  }
});

test('git reads a repository of this machine by a program of its own, of another one by the usual', () => {
  for (const text of ['/srv/repo', './repo', 'file:///srv/repo']) {
    assert.match(parseGitRemote(text).flags.join(), /^--upload-pack=/, text);
  }
  for (const text of ['git@h:a', 'ssh://h/a', 'git+ssh://h/a', 'git://h/a', 'https://h/a', 'https://t@h/a']) {
    assert.deepEqual(parseGitRemote(text).flags, [], text);
  }
});

test('a URL that cannot be read is refused without its credentials', () => {
  assert.throws(
    () => parseGitRemote('https://user:secret@ex ample/r'),
    (error) => error instanceof SyncError && error.code === 'config_invalid' && !error.message.includes('secret'),
  );
});

test('a scheme that git is not let use is a mistake of the settings', () => {
  for (const url of ['ext::sh -c true', 'ftp://example.com/r', 'rsync://example.com/r', 'fd::17/foo', 'EXT::x']) {
    assert.throws(() => parseGitRemote(url), {
      code: 'config_invalid',
      message: /scheme \w+, which is not followed: use file, /,
    });
  }
  assert.equal(parseGitRemote('git+ssh://git@example.com/a').url, 'git+ssh://git@example.com/a');
});

test('ssh uses one key, asks nobody, and accepts a new host only where none is pinned', () => {
  assert.equal(
    sshCommand("/srv/it's"),
    "ssh -i '/srv/it'\\''s' -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o BatchMode=yes",
  );
  assert.equal(
    sshCommand('/run/keys/id', '/run/keys/known_hosts'),
    "ssh -i '/run/keys/id' -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes " +
      `-o 'UserKnownHostsFile="/run/keys/known_hosts" ~/.ssh/known_hosts ~/.ssh/known_hosts2' -o BatchMode=yes`,
  );
});
