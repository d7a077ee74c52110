import { fileURLToPath } from 'node:url';

/** Maximum length of a URL or name of a payload. */
const LENGTH_LIMIT = 2048;
/** Default ports by scheme. `URL` itself removes those of http and https. */
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'ssh:': '22', 'git:': '9418' };
/** Aliases of schemes. */
const SAME_SCHEME: Readonly<Record<string, string>> = { 'git+ssh:': 'ssh:', 'ssh+git:': 'ssh:' };

interface Address {
  readonly scheme: string;
  /** Lower case, with any non-default port; empty for a local path. */
  readonly host: string;
  /** Percent-decoded, otherwise as written. */
  readonly path: string;
  readonly query: string;
}

/**
 * Parses a URL, the scp form of git (`user@host:path`) or a local path; drops user and password.
 */
function parseAddress(text: string): Address | undefined {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const [, host, path = ''] = /^(?:[^@/]*@)?(\[[^\]/]*\]|[^:/@[\]]+):(.*)$/s.exec(text) ?? [];
    if (host === undefined) return { scheme: 'file:', host: '', path: text, query: '' };
    return { scheme: 'ssh:', host: host.toLowerCase(), path, query: '' };
  }
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname, port, pathname, search } = new URL(text);
  const scheme = SAME_SCHEME[protocol] ?? protocol;
  const shownPort = port === '' || port === DEFAULT_PORTS[scheme] ? '' : `:${port}`;
  const host = hostname.toLowerCase() + shownPort;
  const path = orElse(pathname, () => (host === '' ? fileURLToPath(text) : decodeURIComponent(pathname)));
  return { scheme, host, path, query: search };
}

/**
 * Returns the identity of a repository, equal for all spellings of its address:
 * `git@Host:org/repo.git`, `ssh://git@host:22/org/repo/` and `ssh://host/org/repo` are the same.
 * Ignores user and password, the case of the host, a default port, leading and trailing slashes,
 * and `.git` at the end of a remote path. Scheme and case of the path matter. Returns an unparsable
 * address unchanged.
 */
export function repositoryIdentity(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  const { scheme, host, query } = address;
  const path = address.path.replace(/\/{2,}/g, '/');
  // On this machine `repo` and `repo.git` may be two folders.
  if (scheme === 'file:' && host === '') return `file:${path.replace(/(.)\/$/, '$1')}`;
  return `${scheme}//${host}/${path.replace(/^\/|\/$/g, '').replace(/\.git$/, '')}${query}`;
}

/**
 * Returns the loose form of an address, `host[:port]/path`, to match webhooks:
 * `git@Host:org/repo.git` and `https://user:secret@host/Org/repo/?x` are both `host/org/repo`.
 * Compared to {@link repositoryIdentity}, it also ignores scheme, query and case. A local path has
 * an empty host. Undefined for an invalid address.
 */
export function repositoryKey(text: string): string | undefined {
  const address = text === '' || text.length > LENGTH_LIMIT ? undefined : parseAddress(text);
  return address && `${address.host}/${normalPath(address.path)}`;
}

/** The repository that a payload names. */
export interface NamedRepository {
  readonly urls: readonly string[];
  /** Paths without a host: `org/repo`. */
  readonly names: readonly string[];
}

/**
 * Whether a payload is about the configured repository: one of its URLs has the same
 * {@link repositoryKey}, or one of its names is the path of that key. OPAL compares URLs exactly,
 * ignores names if there are URLs, and does not support names for the scp form (opal-protocol P2.4,
 * P10.3), so it misses pushes; a false match only costs a fetch.
 */
export function isRepository(configuredUrl: string, { urls, names }: NamedRepository): boolean {
  const key = repositoryKey(configuredUrl);
  if (key === undefined) return false;
  const path = key.slice(key.indexOf('/') + 1);
  const isName = (name: string): boolean => name.length <= LENGTH_LIMIT && normalPath(name) === path;
  return urls.some((url) => repositoryKey(url) === key) || names.some(isName);
}

function normalPath(path: string): string {
  const segments = path.split('/').filter((segment) => segment !== '');
  return segments
    .join('/')
    .replace(/\.git$/i, '')
    .toLowerCase();
}

/** Falls back for a path with an invalid `%` escape or an encoded slash. */
function orElse(otherwise: string, decode: () => string): string {
  try {
    return decode();
  } catch {
    return otherwise;
  }
}
