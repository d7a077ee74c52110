import type { ClientsAnswer, ClientView } from '../../wire/clients.js';
import {
  type ClientLimits,
  isVisible,
  limitedView,
  type ViewDeps,
  viewOf,
  visiblePart,
} from '../clients/client-view.js';
import type { KnownClient } from '../clients/known-client.js';
import type { Everyone } from './all-clients.js';
import { clockError } from './clock-watch.js';

export interface ClientsQuery {
  /** Only clients with this name or id. */
  readonly id?: string | undefined;
  /** Only clients whose names come after this one. */
  readonly after?: string | undefined;
  /** Page size. */
  readonly limit: number;
  readonly limits: ClientLimits;
}

interface ClientsViewDeps extends ViewDeps {
  readonly everyone: Everyone;
  readonly instance: string;
  readonly policyHead: () => string | undefined;
  /** {@link LogStore.clockAheadMs}. */
  readonly clockAheadMs?: (() => number | undefined) | undefined;
}

/** Characters after which a page is full. */
const PAGE_CHARACTERS = 1024 * 1024;

/** Lists the clients of all instances by name, page by page. */
export function createClientsView(deps: ClientsViewDeps): (query: ClientsQuery) => Promise<ClientsAnswer> {
  return async (query) => {
    const all = await deps.everyone();
    const policyHead = deps.policyHead() ?? null;
    const named = all.named.filter(([name, client]) => isAsked(name, client, query) && isVisible(client, query.limits));
    const { after } = query;
    const from = after === undefined ? 0 : named.findIndex(([name]) => name > after);
    const page = pageOf(from < 0 ? [] : named.slice(from, from + query.limit), ([name, client]) => {
      const about = { name, connected: all.connected.get(client.key) ?? 0, policyHead };
      const view = viewOf(visiblePart(client, query.limits), about, deps);
      return limitedView(view, client, query.limits, deps.recent);
    });
    const isLast = from < 0 || from + page.length >= named.length;
    return {
      epoch: deps.log.epoch,
      head: deps.log.head,
      policy_head: policyHead,
      instance: deps.instance,
      now: deps.now(),
      ...clockOf(deps.clockAheadMs?.()),
      incomplete: all.incomplete,
      total: named.length,
      clients: page,
      next: isLast ? null : (page.at(-1)?.client_id ?? null),
    };
  };
}

function clockOf(aheadMs = 0): Pick<ClientsAnswer, 'clock'> {
  const error = clockError(aheadMs);
  return error === undefined ? {} : { clock: error.message };
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
