import type { IncomingMessage } from 'node:http';
import * as z from 'zod';

/** One connection, for those who want to know who is there. */
export interface PeerInfo {
  /** Channel id of our side. */
  readonly id: string;
  /** Id that the client gave itself: in the query of the upgrade, or where it announced itself for statistics. */
  readonly clientId: string | undefined;
  /** Subject of its token; null where it has none. */
  readonly subject: string | null;
  /** Channel id of the client's side, where it announced itself. */
  readonly rpcId: string | undefined;
  readonly host: string;
  readonly port: number;
  /** Milliseconds since 1970. */
  readonly connectedAtMs: number;
  readonly topics: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  /** True when it speaks our extensions. */
  readonly extended: boolean;
  /** Version of our extensions that was negotiated; undefined: none. */
  readonly protocol: number | undefined;
}

/** Where OPAL's clients say who they are, when statistics are on there (opal-protocol P1.7). */
export const ANNOUNCE_TOPIC = '__opal_stats_add';
/** Query parameter by which a client may name itself (opal-protocol P1.6). */
const CLIENT_ID_PARAMETER = '__opal_client_id';
/** Longer names are cut: they only serve to be shown. */
const MAX_NAME = 256;
/** Parameters of an upgrade that are remembered. */
const MAX_PARAMETERS = 16;

const announcement = z.object({ client_id: z.string(), rpc_id: z.string().nullish() });

/** What a peer says of itself with a publish on {@link ANNOUNCE_TOPIC}; undefined where it is not as documented. */
export function announcedBy(dataText: string): { clientId: string; rpcId: string | undefined } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(dataText);
  } catch {
    return undefined; // Nothing depends on it.
  }
  const parsed = announcement.safeParse(value);
  if (!parsed.success) return undefined;
  return { clientId: parsed.data.client_id.slice(0, MAX_NAME), rpcId: parsed.data.rpc_id?.slice(0, MAX_NAME) };
}

/** Shared by all that have no query. */
const NOTHING_ASKED = { query: {}, clientId: undefined };

/** The query of an upgrade request, bounded, and the client id in it. */
export function upgradeQuery(request: IncomingMessage): {
  query: Readonly<Record<string, string>>;
  clientId: string | undefined;
} {
  if (request.url?.includes('?') !== true) return NOTHING_ASKED;
  const parameters = [...new URL(request.url ?? '/', 'http://server').searchParams].slice(0, MAX_PARAMETERS);
  const query = Object.fromEntries(
    parameters.map(([name, value]) => [name.slice(0, MAX_NAME), value.slice(0, MAX_NAME)] as const),
  );
  return { query, clientId: query[CLIENT_ID_PARAMETER] };
}
