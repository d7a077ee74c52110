/** Longest URL or name that is looked at. */
const LENGTH_LIMIT = 2048;

/** Ports that say nothing: the scheme has them anyway. */
const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  'http:': '80',
  'https:': '443',
  'ssh:': '22',
  'git:': '9418',
};

/** What a payload says of its repository. */
export interface NamedRepository {
  readonly urls: readonly string[];
  /** Paths without a host: `org/repo`. */
  readonly names: readonly string[];
}

/**
 * True when a payload is about the configured repository: one of its URLs has the same {@link repositoryKey}, or one of
 * its names is the path of that key. OPAL compares URLs exactly, ignores names where there are URLs, and knows no names
 * for the scp form (protocol-facts 2.4, 10.31), so it misses pushes; a match too many only costs a look.
 */
export function isRepository(configuredUrl: string, payload: NamedRepository): boolean {
  const key = repositoryKey(configuredUrl);
  if (key === undefined) return false;
  const path = key.slice(key.indexOf('/') + 1);
  return (
    payload.urls.some((url) => repositoryKey(url) === key) ||
    payload.names.some((name) => name.length <= LENGTH_LIMIT && normalPath(name) === path)
  );
}

/**
 * The normal form of a repository's address, `host[:port]/path`: `git@Host:org/repo.git`, `ssh://git@host:22/org/repo` and
 * `https://user:secret@host/Org/repo/?x` are all `host/org/repo`. Scheme, user, password, query and fragment do not count,
 * nor do a default port, upper and lower case, slashes at the ends and doubled, and `.git` at the end. A file URL and a
 * local path have an empty host. Undefined for a text that is no address.
 */
export function repositoryKey(url: string): string | undefined {
  if (url === '' || url.length > LENGTH_LIMIT) return undefined;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) {
    if (!URL.canParse(url)) return undefined;
    const { protocol, hostname, port, pathname } = new URL(url);
    const shownPort = port === '' || port === DEFAULT_PORTS[protocol] ? '' : `:${port}`;
    return `${hostname.toLowerCase()}${shownPort}/${normalPath(decoded(pathname))}`;
  }
  // The scp form of git: no scheme, and a colon before the first slash.
  const scp = /^(?:[^@/]*@)?(\[[^\]/]*\]|[^:/@[\]]+):(.*)$/s.exec(url);
  if (scp !== null) return `${scp[1]?.toLowerCase()}/${normalPath(scp[2] ?? '')}`;
  return `/${normalPath(url)}`;
}

function normalPath(path: string): string {
  const segments = path.split('/').filter((segment) => segment !== '');
  return segments
    .join('/')
    .replace(/\.git$/i, '')
    .toLowerCase();
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // a % that stands for itself
  }
}
