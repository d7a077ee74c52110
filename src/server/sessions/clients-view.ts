import type { ClientsAnswer, ClientView } from '../../wire/clients.js';
import {
  type ClientLimits,
  distinctNames,
  isVisible,
  limitedView,
  type OwnerOf,
  type ViewDeps,
  viewOf,
  visiblePart,
} from './client-view.js';
import { type KnownClient, preferred } from './known-client.js';
import type { PeerInstances } from './peer-instances.js';
import type { InstanceView } from './presence-text.js';

export interface ClientsQuery {
  /** Only clients with this name or id. */
  readonly id?: string | undefined;
  /** Only clients whose names come after this one. */
  readonly after?: string | undefined;
  /** Page size. */
  readonly limit: number;
  readonly limits: ClientLimits;
}

export interface ClientsViewDeps extends ViewDeps {
  readonly instance: string;
  readonly policyHead: () => string | undefined;
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  readonly instances: Pick<PeerInstances, 'others'>;
  readonly ownerOf: OwnerOf;
}

/** Maximum age of the announcements of other instances. */
const MAX_AGE_MS = 500;
/** Age after which an instance may be gone: it announces itself at least every five seconds, and clocks may differ. */
const SILENT_MS = 7000;
/** Characters after which a page is full. */
const PAGE_CHARACTERS = 1024 * 1024;

/** Lists the clients of all instances by name, page by page. */
export function createClientsView(deps: ClientsViewDeps): (query: ClientsQuery) => Promise<ClientsAnswer> {
  return async (query) => {
    const { views, incomplete } = await deps.instances.others(MAX_AGE_MS);
    const connected = new Map<string, number>();
    const chosen = new Map<string, KnownClient>();
    for (const client of [...deps.clients(), ...views.flatMap(({ clients }) => clients)]) {
      // A ping is deciding whether it is alive.
      if (client.isDoubtful) continue;
      const before = chosen.get(client.key);
      chosen.set(client.key, before === undefined ? client : preferred(before, client));
      connected.set(client.key, (connected.get(client.key) ?? 0) + Number(client.awaySinceMs === null));
    }
    const policyHead = deps.policyHead() ?? null;
    const named = [...distinctNames([...chosen.values()], deps.ownerOf)]
      .filter(([name, client]) => isAsked(name, client, query) && isVisible(client, query.limits))
      .sort(([a], [b]) => (a < b ? -1 : 1));
    const { after } = query;
    const from = after === undefined ? 0 : named.findIndex(([name]) => name > after);
    const page = pageOf(from < 0 ? [] : named.slice(from, from + query.limit), ([name, client]) => {
      const about = { name, connected: connected.get(client.key) ?? 0, policyHead };
      return limitedView(viewOf(visiblePart(client, query.limits), about, deps), client, query.limits);
    });
    const isLast = from < 0 || from + page.length >= named.length;
    return {
      epoch: deps.log.epoch,
      head: deps.log.head,
      policy_head: policyHead,
      instance: deps.instance,
      incomplete: incomplete ?? silence(views, deps.now()) ?? null,
      total: named.length,
      clients: page,
      next: isLast ? null : (page.at(-1)?.client_id ?? null),
    };
  };
}

function isAsked(name: string, { clientId }: KnownClient, { id }: ClientsQuery): boolean {
  return id === undefined || name === id || clientId === id;
}

/** Fills a page; the first client always fits. */
function pageOf<T>(all: readonly T[], show: (one: T) => ClientView): ClientView[] {
  const page: ClientView[] = [];
  let characters = 0;
  for (const one of all) {
    const view = show(one);
    characters += JSON.stringify(view).length;
    if (page.length > 0 && characters > PAGE_CHARACTERS) break;
    page.push(view);
  }
  return page;
}

/** Returns a warning if an instance may be gone: its clients may be elsewhere by now. */
function silence(views: readonly InstanceView[], nowMs: number): string | undefined {
  const silent = views.find(({ atMs }) => nowMs - atMs > SILENT_MS);
  if (silent === undefined) return undefined;
  const seconds = Math.round((nowMs - silent.atMs) / 1000);
  return `server instance ${silent.instance} has said nothing for ${seconds} s: its clients may be elsewhere by now`;
}
