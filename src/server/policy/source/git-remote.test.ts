import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { SyncError } from '../../../lib/errors.js';
import { parseGitRemote } from './git-remote.js';

test('credentials of an http URL leave it, and are for its scheme, host and port', () => {
  const remote = parseGitRemote('https://us%40er:p%2Fw@example.com:8443/a/b.git');
  assert.equal(remote.url, 'https://example.com:8443/a/b.git');
  assert.equal(remote.display, remote.url);
  assert.deepEqual(remote.credentials, { origin: 'https://example.com:8443', username: 'us@er', password: 'p/w' });
  assert.deepEqual(new Set(remote.secrets), new Set(['p/w', 'p%2Fw']));
});

test('a user name alone is a token, and as secret as one', () => {
  const remote = parseGitRemote('https://tok123@example.com/r');
  assert.equal(remote.url, 'https://example.com/r');
  assert.deepEqual(remote.secrets, ['tok123', 'tok123']);
  assert.deepEqual(remote.credentials, { origin: 'https://example.com', username: 'tok123', password: '' });
});

test('a query is a secret, too, and no line can be added to what git is told', () => {
  assert.deepEqual(parseGitRemote('https://example.com/r?key=k1').secrets, ['key=k1']);
  for (const text of [
    'https://u%0ahost=x:p@example.com/r',
    'https://u:p%0d@example.com/r',
    'https://u%00@example.com/r',
  ]) {
    assert.throws(() => parseGitRemote(text), {
      code: 'config_invalid',
      message: /line break in its user or password/,
    });
  }
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
    assert.equal(parseGitRemote(text).credentials, undefined);
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
  for (const text of ['https://user:secret@ex ample/r', 'https://user:a/secret@example/r', 'https://h:x/r?secret']) {
    assert.throws(
      () => parseGitRemote(text),
      (error) => error instanceof SyncError && error.code === 'config_invalid' && !error.message.includes('secret'),
      text,
    );
  }
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
