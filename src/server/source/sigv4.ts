import { createHash, createHmac } from 'node:crypto';
import type { Secret } from '../../lib/log.js';

/** SHA-256 of no bytes: a GET has no body. */
const EMPTY_SHA256 = createHash('sha256').digest('hex');

/** Whose request it is, and where it goes. */
export interface SigV4Credentials {
  accessKeyId: Secret;
  secretAccessKey: Secret;
  region: string;
}

/**
 * Signs a GET request to S3 (AWS Signature Version 4, one chunk, by headers). Answers the URL to ask for, in which path and
 * query are written exactly as they were signed, and the headers to send with it: those given, `x-amz-date`,
 * `x-amz-content-sha256` and `authorization`. All but the last are signed, with `host`. Names are in lower case.
 */
export function signGet(
  url: URL,
  credentials: SigV4Credentials,
  now: Date,
  given: Readonly<Record<string, string>> = {},
): { url: URL; headers: Record<string, string> } {
  const { region } = credentials;
  const time = now.toISOString().replace(/[:-]|\.\d{3}/g, '');
  const day = time.slice(0, 8);
  const path = canonicalPath(url);
  const query = canonicalQuery(url);
  const signedUrl = new URL(url);
  signedUrl.pathname = path;
  signedUrl.search = query;
  signedUrl.hash = '';
  const headers: Record<string, string> = { ...given, 'x-amz-content-sha256': EMPTY_SHA256, 'x-amz-date': time };
  const signed = Object.entries({ ...headers, host: signedUrl.host }).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const canonicalRequest = [
    'GET',
    path,
    query,
    ...signed.map(([name, value]) => `${name}:${value.trim().replace(/\s+/g, ' ')}`),
    '',
    names,
    EMPTY_SHA256,
  ].join('\n');
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', time, scope, sha256(canonicalRequest)].join('\n');
  const dayKey = hmac(`AWS4${credentials.secretAccessKey.reveal()}`, day);
  const key = [region, 's3', 'aws4_request'].reduce<string | Buffer>(hmac, dayKey);
  const signature = hmac(key, text).toString('hex');
  headers.authorization = `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId.reveal()}/${scope}, SignedHeaders=${names}, Signature=${signature}`;
  return { url: signedUrl, headers };
}

/**
 * The path, encoded once and in full: all but unreserved characters and `/`. Throws `URIError` for a `%` that is no escape.
 */
export function canonicalPath(url: URL): string {
  return decodeURIComponent(url.pathname).split('/').map(encoded).join('/');
}

/** The parameters in byte order of their encoded names, then values. */
function canonicalQuery(url: URL): string {
  return [...url.searchParams]
    .map(([name, value]) => [encoded(name), encoded(value)] as const)
    .sort(([a, x], [b, y]) => (a < b || (a === b && x < y) ? -1 : 1))
    .map((pair) => pair.join('='))
    .join('&');
}

/** RFC 3986: everything but `A-Za-z0-9-._~`. */
function encoded(text: string): string {
  const hex = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text).replace(/[!'()*]/g, hex);
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
