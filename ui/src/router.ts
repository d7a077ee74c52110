import { type ReadonlySignal, signal } from '@preact/signals';
import { segmentOf } from '../../src/fleet-rules/names-of-others.js';

/**
 * The pages, by the first part of the address: `#/clients/<id>` is `client`, `#/clients` does not
 * exist.
 */
export type PageName = 'fleet' | 'client' | 'changes' | 'change' | 'data' | 'policy' | 'instances' | 'sign-in';

/** Where one is. */
export interface Route {
  /** undefined: no page has this address. */
  readonly page: PageName | undefined;
  /** The client or change of the address. */
  readonly id: string | undefined;
  readonly query: URLSearchParams;
  /** The address without the hash sign: `/fleet?q=app:billing`. */
  readonly href: string;
}

/** Members of a query; what is undefined or empty is left out. */
export type Query = Readonly<Record<string, string | number | undefined>>;

export interface Router {
  readonly route: ReadonlySignal<Route>;
  /** Opens an address such as {@link linkTo} makes: the one before is a step back. */
  go(href: string): void;
  /** Puts an address in the place of the present one: for what is typed. */
  replace(href: string): void;
  /** Changes members of the query of the present page; undefined or empty removes one. */
  setQuery(changes: Query, how: 'go' | 'replace'): void;
}

const SINGLE: ReadonlyMap<string, PageName> = new Map(
  (['fleet', 'changes', 'data', 'policy', 'instances', 'sign-in'] as const).map((page) => [page, page]),
);
const WITH_ID: ReadonlyMap<string, PageName> = new Map([
  ['clients', 'client'],
  ['changes', 'change'],
]);
const FOLDER: Partial<Record<PageName, string>> = { client: 'clients', change: 'changes' };

/** Characters that turn the direction of a text, as a browser has them in an address. */
const TURNS = /%E2%(?:80%A[A-E]|81%A[6-9])/gi;

/** Reads the hash of an address. An empty one is the fleet. */
export function routeOf(hash: string): Route {
  const href = hash.replace(/^#/, '').replace(TURNS, '') || '/fleet';
  const [path = '', search = ''] = split(href, '?');
  const [, first = '', rest] = /^\/([^/]*)(?:\/(.*))?$/.exec(path) ?? [];
  const query = new URLSearchParams(search);
  if (rest === undefined || rest === '') return { page: SINGLE.get(first), id: undefined, query, href };
  return { page: WITH_ID.get(first), id: decoded(rest), query, href };
}

/** The address of a page, for `href`: `#/clients/a%2Fb`, `#/fleet?q=app:billing+state:refused`. */
export function linkTo(page: PageName, { id, query = {} }: { id?: string | undefined; query?: Query } = {}): string {
  const path = id === undefined ? page : `${FOLDER[page] ?? page}/${segmentOf(id)}`;
  return `#/${path}${searchOf(query)}`;
}

function searchOf(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  if (given.length === 0) return '';
  const text = new URLSearchParams(Object.fromEntries(given.map(([name, value]) => [name, String(value)]))).toString();
  // These need no escape in a fragment, and an address is read by people.
  return `?${text.replaceAll('%3A', ':').replaceAll('%2F', '/').replaceAll('%2C', ',').replaceAll('%3E', '>')}`;
}

/** What the routes need of a window. */
export interface RouterWindow {
  readonly location: { readonly hash: string };
  readonly history: Record<'pushState' | 'replaceState', (data: unknown, unused: string, url: string) => void>;
  addEventListener(name: 'hashchange', listener: () => void): void;
}

/** The routes of a window, from its hash. */
export function createRouter(win: RouterWindow): Router {
  const route = signal(routeOf(win.location.hash));
  const read = (): void => {
    if (routeOf(win.location.hash).href !== route.value.href) route.value = routeOf(win.location.hash);
  };
  win.addEventListener('hashchange', read);
  const navigate = (href: string, how: 'go' | 'replace'): void => {
    const target = href.startsWith('#') ? href : `#${href}`;
    if (how === 'replace') win.history.replaceState(null, '', target);
    else if (target !== win.location.hash) win.history.pushState(null, '', target);
    read();
  };
  return {
    route,
    go: (href) => navigate(href, 'go'),
    replace: (href) => navigate(href, 'replace'),
    setQuery(changes, how) {
      const [path = ''] = split(route.value.href, '?');
      const query = { ...Object.fromEntries(route.value.query), ...changes };
      navigate(`#${path}${searchOf(query)}`, how);
    },
  };
}

function split(text: string, at: string): [string, string] {
  const index = text.indexOf(at);
  return index === -1 ? [text, ''] : [text.slice(0, index), text.slice(index + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
