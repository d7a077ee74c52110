import { fileURLToPath } from 'node:url';

/** Longest URL or name of a payload that is compared. */
const LENGTH_LIMIT = 2048;
/** Ports that the scheme implies. `URL` itself leaves out those of http and https. */
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'ssh:': '22', 'git:': '9418' };
/** Schemes that mean another one. */
const SAME_SCHEME: Readonly<Record<string, string>> = { 'git+ssh:': 'ssh:', 'ssh+git:': 'ssh:' };

interface Address {
  readonly scheme: string;
  /** Lower case, with a port that is not the default one; empty for a local path. */
  readonly host: string;
  /** Decoded, as it was written otherwise. */
  readonly path: string;
  readonly query: string;
}

/** Takes a URL, the scp form of git (`user@host:path`) or a local path apart; user and password are left out. */
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
 * The repository that an address means, so that two spellings of one give the same text: `git@Host:org/repo.git`,
 * `ssh://git@host:22/org/repo/` and `ssh://host/org/repo` do. User and password, the case of the host, a default port, slashes
 * at the ends and `.git` at the end of a path on another machine make no difference. All else does: the scheme, and the case of
 * a path. An address that cannot be read stands for itself.
 */
export function repositoryIdentity(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  const { scheme, host, query } = address;
  const path = address.path.replace(/\/{2,}/g, '/');
  // On this machine `repo` and `repo.git` may be two folders.
  if (scheme === 'file:' && host === '') return `file:${path.replace(/(.)\/+$/, '$1')}`;
  return `${scheme}//${host}/${path.replace(/^\/|\/$/g, '').replace(/\.git$/, '')}${query}`;
}

/**
 * The loose form of an address, `host[:port]/path`, by which webhooks are matched: `git@Host:org/repo.git` and
 * `https://user:secret@host/Org/repo/?x` are both `host/org/repo`. Beyond {@link repositoryIdentity}, scheme, query and case make
 * no difference. A local path has an empty host. Undefined for a text that is no address.
 */
export function repositoryKey(text: string): string | undefined {
  const address = text === '' || text.length > LENGTH_LIMIT ? undefined : parseAddress(text);
  return address && `${address.host}/${normalPath(address.path)}`;
}

/** What a payload says of its repository. */
export interface NamedRepository {
  readonly urls: readonly string[];
  /** Paths without a host: `org/repo`. */
  readonly names: readonly string[];
}

/**
 * True when a payload is about the configured repository: one of its URLs has the same {@link repositoryKey}, or one of
 * its names is the path of that key. OPAL compares URLs exactly, ignores names where there are URLs, and knows no names
 * for the scp form (opal-protocol P2.4, P10.3), so it misses pushes; a match too many only costs a look.
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

/** A path with a `%` that stands for itself, or an encoded slash, stays as it is. */
function orElse(otherwise: string, decode: () => string): string {
  try {
    return decode();
  } catch {
    return otherwise;
  }
}
