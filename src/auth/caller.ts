import { Secret } from '../lib/observe/log.js';
import type { DocPath } from '../wire/doc-path.js';

/**
 * What a token says that its holder is (specification token-request.type; `datasource` from
 * opal-protocol P3.2).
 */
export const PEER_TYPES = ['client', 'datasource', 'listener'] as const;
export type PeerType = (typeof PEER_TYPES)[number];

/**
 * Who may call a route while authentication is on (design D36), and what of it callers see who are
 * not told everything. While it is off everyone may call everything, and is told everything.
 *
 * `everyone` may call. `strangers`: what they see without a token; `words`: status and codes, no
 * member that is for insiders (`wire/insider.ts`). `insiders`: whose valid tokens, if they have no
 * limits, get these members, too.
 *
 * `token`: every caller with a valid token may call; peer types: every caller with a valid token of
 * one of them. `limited`: what a token gets that is limited to topics or paths. `own`: what its
 * limits permit, which the handler decides, and no member that is for insiders; `nothing`: 401.
 */
export type Audience = OpenAudience | GuardedAudience;

type OpenAudience =
  | { readonly access: 'everyone'; readonly strangers: 'all' }
  | { readonly access: 'everyone'; readonly strangers: 'words'; readonly insiders: Holders };

/** Valid tokens: any, or those of some types. */
export type Holders = 'token' | readonly PeerType[];

/** The {@link Audience} of a route that needs a token. */
export interface GuardedAudience {
  readonly access: Holders;
  readonly limited: 'all' | 'own' | 'nothing';
}

/** Who calls, as far as authentication found out. */
export interface Caller {
  /** Who holds the token: the name in it, or else its subject, a UUID; null without a token. */
  readonly subject: string | null;
  readonly peerType: PeerType | undefined;
  /** The topics that the token is limited to; undefined: any. */
  readonly permittedTopics: ReadonlySet<string> | undefined;
  /** The token may publish at and below these paths alone; undefined: anywhere. */
  readonly permittedPaths: readonly DocPath[] | undefined;
  /** All claims of the verified token; empty where authentication is off. */
  readonly claims: Readonly<Record<string, unknown>>;
  /** The bearer token as it was sent, verified or (with authentication off) not. */
  readonly token: Secret | undefined;
}

/** Authenticates callers. */
export interface Authenticator {
  /** False: authentication is off, and every route is open. */
  readonly enabled: boolean;
  /**
   * Takes the `Authorization` header. Throws `unauthorized` when it is on and the token is missing
   * or not valid.
   */
  authenticate(authorization: string | undefined): Promise<Caller>;
}

/**
 * When the token of a caller expires, in milliseconds since 1970; undefined: never, or there is
 * none.
 */
export function expiresAtMs({ claims }: Caller): number | undefined {
  return typeof claims.exp === 'number' ? claims.exp * 1000 : undefined;
}

/** The token of an `Authorization: Bearer ...` header; undefined if there is none. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
}

/** The topics and paths that a caller is limited to. */
export type Permitted = Pick<Caller, 'permittedTopics' | 'permittedPaths'>;

/** What a caller is limited to. */
export interface Limits extends Permitted {
  /** To topics or paths: it may see what happens to its own data, not what others report. */
  readonly isLimited: boolean;
}

export function limitsOf({ permittedTopics, permittedPaths }: Permitted): Limits {
  return { permittedTopics, permittedPaths, isLimited: permittedTopics !== undefined || permittedPaths !== undefined };
}

/**
 * Whether the holder of a valid token may know what concerns everybody: texts of failures, which
 * can quote a response from inside of a network, and addresses of internal services. `holders`: who
 * may, without limits.
 */
export function isInsider(holders: Holders, caller: Pick<Caller, keyof Permitted | 'peerType'>): boolean {
  return isOneOf(holders, caller) && !limitsOf(caller).isLimited;
}

/** Whether the valid token of a caller is one of these. */
export function isOneOf(holders: Holders, { peerType }: Pick<Caller, 'peerType'>): boolean {
  return holders === 'token' || (peerType !== undefined && holders.includes(peerType));
}

/**
 * Whether a caller may publish, and so sees who published and why; with authentication off everyone
 * does.
 */
export function isDatasource({ peerType }: Pick<Caller, 'peerType'>): boolean {
  return peerType === undefined || peerType === 'datasource';
}

/** A caller of whom nothing is known. */
export const ANONYMOUS: Caller = {
  subject: null,
  peerType: undefined,
  permittedTopics: undefined,
  permittedPaths: undefined,
  claims: {},
  token: undefined,
};

/**
 * Authentication that is off: every caller may do everything, and no claim of a token is believed.
 */
export function anonymousAuth(): Authenticator {
  return {
    enabled: false,
    authenticate: async (authorization) => {
      const token = bearerToken(authorization);
      return token === undefined ? ANONYMOUS : { ...ANONYMOUS, token: new Secret(token) };
    },
  };
}
