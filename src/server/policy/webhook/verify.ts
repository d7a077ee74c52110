import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { SyncError } from '../../../lib/errors.js';
import type { Secret } from '../../../lib/observe/log.js';
import type { WebhookParams } from './params.js';

/** SHA-256 in hex. */
const SIGNATURE = /^[0-9a-f]{64}$/i;
/**
 * Longer header values are rejected. Signatures have 64 digits, the longest tokens of the services
 * below 1000.
 */
const HEADER_LIMIT = 4096;

/** Both throw `webhook_refused` (401) when the sender does not know the secret. */
export interface SecretCheck {
  /**
   * The check before the body is read: complete if the header is the secret itself, otherwise only
   * of the signature's form.
   */
  screen(headers: IncomingHttpHeaders): void;
  check(headers: IncomingHttpHeaders, body: Buffer): void;
}

/**
 * Creates the check of a webhook's secret (specification authentication.5; texts from opal-protocol
 * P2.4). It covers the raw bytes of the body before parsing, in constant time. Without a secret it
 * accepts every sender, as in OPAL. Rejects with `config_invalid` for an unusable expression.
 */
export async function createSecretCheck(
  params: Pick<WebhookParams, 'secret_header_name' | 'secret_type' | 'secret_parsing_regex'>,
  secret: Secret | undefined,
): Promise<SecretCheck> {
  const find = await createFirstMatch(params.secret_parsing_regex);
  if (secret === undefined) return { screen: () => undefined, check: () => undefined };
  const key = secret.reveal();
  const isSignature = params.secret_type === 'signature';
  const givenIn = (headers: IncomingHttpHeaders): string => {
    const value = headerValue(headers, params.secret_header_name);
    const given = value.length > HEADER_LIMIT ? undefined : find(value);
    if (given === undefined || given === '') throw new SyncError('webhook_refused', 'No secret was provided!');
    return given;
  };
  const mustBe = (known: boolean): void => {
    if (known) return;
    throw new SyncError('webhook_refused', isSignature ? "signatures didn't match!" : "secret-tokens didn't match!");
  };
  const isSecret = (headers: IncomingHttpHeaders): boolean => isSame(givenIn(headers), Buffer.from(key, 'utf8'));
  if (!isSignature)
    return { screen: (headers) => mustBe(isSecret(headers)), check: (headers) => mustBe(isSecret(headers)) };
  return {
    screen: (headers) => mustBe(SIGNATURE.test(givenIn(headers))),
    check: (headers, body) =>
      mustBe(isSame(givenIn(headers).toLowerCase(), createHmac('sha256', key).update(body).digest('hex'))),
  };
}

/** Returns a header, the first if it is repeated; empty if it is missing. */
export function headerValue(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name.toLowerCase()];
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

/**
 * Node decodes header bytes as latin1, so they are encoded the same way. Hashes have equal lengths.
 */
function isSame(given: string, expected: string | Buffer): boolean {
  return timingSafeEqual(sha256(Buffer.from(given, 'latin1')), sha256(expected));
}

function sha256(value: string | Buffer): Buffer {
  return createHash('sha256').update(value).digest();
}

/** Returns the matched part of a text; undefined if nothing matches. */
export type FirstMatch = (text: string) => string | undefined;

/** A literal prefix, then everything: the form of every preset. */
const PREFIX_THEN_ALL = /^([\w\-=:/ ]*)\(\.\*\)$/;

/**
 * Creates a function that applies an expression like OPAL's `re.findall(...)[0]` (opal-protocol
 * P2.4): the first match anywhere, or its first group if it has one. With RE2 the time is linear in
 * the text for every expression. RE2 costs 8 MB and is loaded only if needed. Rejects with
 * `config_invalid` for an invalid expression, or look-around and back-references, which RE2 lacks.
 */
export async function createFirstMatch(expression: string): Promise<FirstMatch> {
  const prefix = PREFIX_THEN_ALL.exec(expression)?.[1];
  return prefix === undefined ? re2FirstMatch(expression) : prefixFirstMatch(prefix);
}

/** `prefix(.*)`: the text after the first occurrence, to the end of its line. */
function prefixFirstMatch(prefix: string): FirstMatch {
  return (text) => {
    const at = text.indexOf(prefix);
    return at < 0 ? undefined : text.slice(at + prefix.length).split('\n', 1)[0];
  };
}

/** Any expression. Exported so that a test can compare the two ways. */
export async function re2FirstMatch(expression: string): Promise<FirstMatch> {
  const { RE2JS } = await import('re2js');
  let pattern: ReturnType<typeof RE2JS.compile>;
  try {
    pattern = RE2JS.compile(expression);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SyncError(
      'config_invalid',
      `SYNC_POLICY_REPO_WEBHOOK_PARAMS at secret_parsing_regex: ${why} (it must be RE2 syntax)`,
      { cause },
    );
  }
  return (text) => {
    const matcher = pattern.matcher(text);
    if (!matcher.find()) return undefined;
    return matcher.group(matcher.groupCount() > 0 ? 1 : 0) ?? undefined;
  };
}
