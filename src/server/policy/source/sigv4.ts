import { createHash } from 'node:crypto';
import type { Secret } from '../../../lib/observe/log.js';

/** SHA-256 of no bytes: a GET has no body. */
const EMPTY_SHA256 = createHash('sha256').digest('hex');

/** Access key and region of a request. */
export interface SigV4Credentials {
  accessKeyId: Secret;
  secretAccessKey: Secret;
  region: string;
}

/**
 * Signs a GET request to S3 (AWS Signature Version 4, in headers). Returns the URL, with path and
 * query exactly as signed, and the headers to send.
 */
export async function signGet(
  url: URL,
  { accessKeyId, secretAccessKey, region }: SigV4Credentials,
  now: Date,
): Promise<{ url: URL; headers: Readonly<Record<string, string>> }> {
  const { AwsV4Signer } = await import('aws4fetch'); // loaded on first use: few servers need it
  const signedUrl = new URL(url);
  signedUrl.pathname = canonicalPath(url); // aws4fetch reads + as a space
  signedUrl.hash = '';
  const signer = new AwsV4Signer({
    method: 'GET',
    url: signedUrl.href,
    headers: { 'x-amz-content-sha256': EMPTY_SHA256 },
    accessKeyId: accessKeyId.reveal(),
    secretAccessKey: secretAccessKey.reveal(),
    service: 's3',
    region,
    datetime: now.toISOString().replace(/[:-]|\.\d{3}/g, ''),
  });
  const { headers } = await signer.sign();
  signedUrl.search = signer.encodedSearch;
  return { url: signedUrl, headers: Object.fromEntries(headers) };
}

/**
 * Returns the path with all but unreserved characters and `/` encoded once. Throws `URIError` for
 * an invalid `%` escape.
 */
export function canonicalPath(url: URL): string {
  const escaped = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  const encoded = (segment: string): string => encodeURIComponent(segment).replace(/[!'()*]/g, escaped);
  return decodeURIComponent(url.pathname).split('/').map(encoded).join('/');
}
