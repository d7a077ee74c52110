import { fileURLToPath } from 'node:url';

/** Ports that say nothing: the scheme has them anyway. Those of http and https, `URL` leaves out itself. */
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'ssh:': '22', 'git:': '9418' };
/** Schemes that mean another one. */
const SAME_SCHEME: Readonly<Record<string, string>> = { 'git+ssh:': 'ssh:', 'ssh+git:': 'ssh:' };

/**
 * The repository that an address means, so that two spellings of one give the same text: `git@Host:org/repo.git`,
 * `ssh://git@host:22/org/repo/` and `ssh://host/org/repo` do. Not told apart: user and password, upper and lower case of the
 * host, a default port, slashes at the ends, `.git` at the end of a path on another machine. All else counts: the scheme, and the
 * case of a path. An address that cannot be read stands for itself.
 */
export function repositoryIdentity(address: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(address)) {
    const scp = /^(?:[^/:]*@)?(\[[^\]/]*\]|[^/:@]+):(.*)$/s.exec(address);
    if (scp === null) return `file:${withoutSlashes(address)}`;
    return `ssh://${scp[1]?.toLowerCase()}/${remotePath(scp[2] ?? '')}`;
  }
  if (!URL.canParse(address)) return address;
  const { protocol, hostname, port, pathname, search, host } = new URL(address);
  if (protocol === 'file:' && host === '') return `file:${withoutSlashes(filePath(address, pathname))}`;
  const scheme = SAME_SCHEME[protocol] ?? protocol;
  const shownPort = port === '' || port === DEFAULT_PORTS[scheme] ? '' : `:${port}`;
  return `${scheme}//${hostname.toLowerCase()}${shownPort}/${remotePath(decoded(pathname))}${search}`;
}

function filePath(address: string, pathname: string): string {
  try {
    return fileURLToPath(address);
  } catch {
    return pathname; // an encoded slash
  }
}

/** A local path has `.git` as a name of its own: `repo` and `repo.git` may be two folders. */
function withoutSlashes(path: string): string {
  return path.replace(/\/{2,}/g, '/').replace(/(.)\/+$/, '$1');
}

function remotePath(path: string): string {
  return path
    .replace(/\/{2,}/g, '/')
    .replace(/^\/|\/$/g, '')
    .replace(/\.git$/, '');
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // a % that stands for itself
  }
}
