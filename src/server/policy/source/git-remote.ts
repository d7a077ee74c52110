import { resolve } from 'node:path';
import { SyncError } from '../../../lib/errors.js';
import { decoded } from '../../../lib/net/http-response.js';
import { redactUrl } from '../../../lib/observe/log.js';
import type { GitCredentials } from './git-command.js';

/** Allowed URL schemes. */
const SCHEMES: ReadonlySet<string> = new Set(['file', 'git', 'git+ssh', 'http', 'https', 'ssh', 'ssh+git']);

/**
 * Reads a repository of this machine whoever owns it: the operator names it, but a container or a
 * service runs as a user of its own, whom git refuses. Git passes no configuration on to this
 * program, which reads this one repository; since its own configuration names programs for that, it
 * may fetch nothing.
 */
const READ_LOCAL = ["--upload-pack=GIT_ALLOW_PROTOCOL= git -c 'safe.directory=*' upload-pack"];

/** A remote repository, with its credentials separated from the URL. */
export interface GitRemote {
  /** URL without credentials: the argument for git, and the identity of the repository. */
  url: string;
  /** The URL for logs and messages. */
  display: string;
  /** Flags of `git fetch` and `git ls-remote`. */
  flags: readonly string[];
  /** User and password of an http(s) URL. */
  credentials: GitCredentials | undefined;
  /** Texts that must never appear in messages. */
  secrets: readonly string[];
}

/**
 * Parses SYNC_POLICY_REPO_URL: file, http(s), git and ssh URLs, the scp form `user@host:path`, and
 * local paths (made absolute). Credentials of an http(s) URL are for its scheme, host and port
 * alone; for a user name without a password, the credential helpers of the user are asked first,
 * and if they know none, it counts as a token with an empty password. Throws `config_invalid` for
 * an invalid URL.
 */
export function parseGitRemote(text: string): GitRemote {
  const plain = (url: string, flags: readonly string[] = []): GitRemote => ({
    ...{ url, display: redactUrl(url), flags },
    ...{ credentials: undefined, secrets: [] },
  });
  const scheme = /^([a-z][a-z0-9+.-]*)(?::\/\/|::)/i.exec(text)?.[1];
  if (scheme !== undefined && !SCHEMES.has(scheme.toLowerCase())) {
    const known = [...SCHEMES].join(', ');
    throw new SyncError(
      'config_invalid',
      `SYNC_POLICY_REPO_URL has the scheme ${scheme}, which is not followed: use ${known}, user@host:path or a path`,
    );
  }
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const isScpForm = /^[^/:]+:/.test(text);
    return isScpForm ? plain(text) : plain(resolve(text), READ_LOCAL);
  }
  let parsed: URL;
  try {
    parsed = new URL(text);
  } catch (cause) {
    throw new SyncError('config_invalid', `SYNC_POLICY_REPO_URL is not a URL: ${redactUrl(text)}`, { cause });
  }
  if (parsed.protocol === 'http:' || parsed.protocol === 'https:') return httpRemote(parsed);
  // ssh ignores a password in the URL; the user name is part of the address.
  if (parsed.password === '') return plain(text, parsed.protocol === 'file:' ? READ_LOCAL : []);
  const secrets = [parsed.password, decoded(parsed.password)];
  parsed.password = '';
  return { ...plain(parsed.href), secrets };
}

function httpRemote(parsed: URL): GitRemote {
  const [username, password] = [decoded(parsed.username), decoded(parsed.password)];
  const raw = parsed.password === '' ? parsed.username : parsed.password;
  parsed.username = '';
  parsed.password = '';
  const url = parsed.href;
  const query = parsed.search === '' ? [] : [parsed.search.slice(1)];
  const remote = { url, display: redactUrl(url), flags: [], credentials: undefined, secrets: query };
  if (username === '' && password === '') return remote;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: git reads one line for each
  if (/[\x00\r\n]/.test(username + password)) {
    throw new SyncError('config_invalid', 'SYNC_POLICY_REPO_URL has a line break in its user or password');
  }
  return {
    ...remote,
    credentials: { origin: parsed.origin, username, password },
    // A user name with a password is not secret, and masking it would garble messages that contain
    // the word.
    secrets: [...query, raw, decoded(raw)],
  };
}
