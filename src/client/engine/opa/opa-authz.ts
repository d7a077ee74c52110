import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Secret } from '../../../lib/observe/log.js';
import type { DocPath } from '../../../wire/doc-path.js';
import type { ClientSettings } from '../../options.js';
import type { EngineKind } from '../engine-kind.js';
import { type InlineEngineConfig, listenAddress, splitAddress } from './opa-args.js';

/**
 * Access to the engine. `token`: everyone may query; only this client, with a random token, may
 * write, or read policy and configuration. `open`: no restrictions. `own`: the operator's
 * configuration of OPA decides. `external`: not our OPA. `embedded`: everyone who reaches its REST
 * API may query; there is no way to write.
 */
export type EngineAccessKind = 'token' | 'open' | 'own' | 'external' | 'embedded';

/** Restricts the engine to this client: a token and the policy that accepts it. */
export interface OpaAuthz {
  /** Our credentials, kept only in memory. */
  readonly token: Secret;
  /** The authorization policy. It holds only the token's SHA-256, so reading it gives no access. */
  readonly rego: string;
}

/** Settings that the authorization depends on. */
export type AuthzSettings = Pick<
  ClientSettings,
  'engineUrl' | 'inlineEngineOpen' | 'inlineEngineConfig' | 'inlineEngineOrigins' | 'inlineEngineBuiltinsOff'
>;

/** Path of the authorization policy: no delivered module or document is written here. */
export const AUTHZ_PATH: DocPath = ['system', 'authz'];

/** Why an operator's policy cannot use this path, and what to do. */
export const AUTHZ_REASON =
  "it is the place of the inline engine's own authorization policy. Remove it; or load it with files and authorization basic of SYNC_INLINE_ENGINE_CONFIG, or set SYNC_INLINE_ENGINE_OPEN=true";

/** The decision that OPA evaluates before each request. */
export const AUTHZ_DECISION = '/system/authz/allow';

/** File name of the policy; OPA lists the module by the file's full path. */
const AUTHZ_FILE = 'policysync-door.rego';

/** Returns the access to an engine of this kind that the settings select. */
export function engineAccessKind(settings: AuthzSettings, kind: EngineKind): EngineAccessKind {
  const { authentication, authorization } = settings.inlineEngineConfig ?? {};
  if (kind !== 'inline') return kind;
  if (authorization === 'basic' || authentication === 'tls') return 'own';
  // Either of them, including `off`, is the operator's choice.
  if (authorization !== undefined || authentication !== undefined) return 'open';
  return settings.inlineEngineOpen ? 'open' : 'token';
}

/** Creates an authorization policy with a new token. */
export function makeAuthz(settings: AuthzSettings): OpaAuthz {
  const token = new Secret(randomBytes(32).toString('base64url'));
  const sha256 = createHash('sha256').update(token.reveal()).digest('hex');
  // An ad hoc query could call any built-in function.
  const withQueries = settings.inlineEngineBuiltinsOff.length === 0;
  return { token, rego: authzRego(sha256, { origins: ownOrigins(settings), withQueries }) };
}

/**
 * Returns the origins of pages that the engine itself serves, and those that the operator lists.
 */
export function ownOrigins(
  settings: Pick<AuthzSettings, 'engineUrl' | 'inlineEngineConfig' | 'inlineEngineOrigins'>,
): string[] {
  const { engineUrl, inlineEngineConfig: config = {} } = settings;
  const { origin, protocol } = new URL(engineUrl);
  const port = splitAddress(listenAddress({ engineUrl, config }))?.port;
  const loopback = ['localhost', '127.0.0.1', '[::1]'].map(
    (host) => new URL(`${protocol}//${host}:${port ?? 80}`).origin,
  );
  return [...new Set([origin, ...(port === undefined ? [] : loopback), ...settings.inlineEngineOrigins])];
}

/**
 * Writes our authorization policy into `dir`, readable only by us, and returns the options of OPA
 * that enforce it from the first request on; none if there is no such policy. `files`: those that
 * OPA loads anyway.
 */
export async function writeAuthz(
  dir: string,
  rego: string | undefined,
  files: readonly string[] = [],
): Promise<Pick<InlineEngineConfig, 'authentication' | 'authorization' | 'files'>> {
  if (rego === undefined) return {};
  const file = join(dir, AUTHZ_FILE);
  await writeFile(file, rego, { mode: 0o600, flag: 'wx' });
  return { authentication: 'token', authorization: 'basic', files: [...files, file] };
}

/**
 * Allows queries, unless a browser reports a page of another origin; everything else requires the
 * token. Each rule compares fixed paths of the input with constants, so OPA finds the matching rule
 * by its index, and a query costs one lookup and two absent headers.
 */
function authzRego(
  sha256: string,
  { origins, withQueries }: { origins: readonly string[]; withQueries: boolean },
): string {
  const queries = [
    { method: 'POST', path: ['v1', 'query'] },
    { method: 'GET', path: ['v1', 'query'], also: 'not reaches_out' },
    { method: 'POST', path: ['v1', 'compile'] },
    { method: 'GET', path: ['v1', 'compile'] },
  ];
  const asking: readonly { method: string; path: string[]; also?: string }[] = [
    { method: 'POST', path: ['v1', 'data'] },
    { method: 'GET', path: ['v1', 'data'] },
    { method: 'POST', path: ['v0', 'data'] },
    ...(withQueries ? queries : []),
    { method: 'POST', path: [''] },
    { method: 'GET', path: [''] },
    { method: 'GET', path: ['health'] },
    { method: 'GET', path: ['metrics'] },
  ];
  const rules = asking.map(({ method, path, also }) => {
    const places = path.map((part, index) => `\tinput.path[${index}] == ${JSON.stringify(part)}\n`).join('');
    return `allow if {\n\tinput.method == "${method}"\n${places}\tnot foreign_page\n${also === undefined ? '' : `\t${also}\n`}}\n`;
  });
  return `package system.authz

import rego.v1

default allow := false

${rules.join('\n')}
${foreignPage(origins)}
# A page of a name that leads here sends no Origin with a GET: its query must not send for it, nor show the configuration.
reaches_out if {
	some query in input.params.q
	regex.match(\`\\b(http|net|opa)\\b\`, query)
}

allow if crypto.sha256(input.identity) == "${sha256}"
`;
}

/**
 * The rule that detects a page of another site. Go removes Host from the headers, so OPA's policies
 * cannot read it.
 */
function foreignPage(origins: readonly string[]): string {
  if (origins.includes('*')) return 'foreign_page := false\n';
  return `foreign_page if {
	some origin in input.headers.Origin
	not origin in own_origins
}

foreign_page if {
	not input.headers.Origin
	some site in input.headers["Sec-Fetch-Site"]
	site in {"cross-site", "same-site"}
}

own_origins := {${origins.map((origin) => JSON.stringify(origin)).join(', ')}}
`;
}
