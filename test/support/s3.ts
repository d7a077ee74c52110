import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AwsClient, AwsV4Signer } from 'aws4fetch';
// @ts-expect-error it has no types
import S3rver from 's3rver';
import { listening } from './http-server.js';
import { tempDir } from './temp-dir.js';
import { until } from './until.js';

/** As far as it is used here. */
interface S3rverClass {
  new (options: Record<string, unknown>): { run(): Promise<AddressInfo>; close(): Promise<void> };
}

/** The one key pair that s3rver knows. */
export const S3_KEYS = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' };
const BUCKET = 'policies';
/** How far clocks may be apart, as at Amazon. */
const MAX_SKEW_MS = 15 * 60_000;

/** An S3-compatible server. `await using` ends it and removes what it stored. */
export interface S3Server extends AsyncDisposable {
  /** Base of a bucket with one folder, path-style, with the port. */
  readonly url: string;
  readonly region: string;
  /** Statuses of the answers to GET requests so far. */
  readonly statuses: readonly number[];
  /** Stores `bundle.tar.gz` below the base. */
  put(archive: Buffer): Promise<void>;
}

/**
 * Starts s3rver on loopback. It stores, lists and answers as S3 does, but takes every version 4 signature for good as long
 * as the key id is known, and answers reads during a write with a mixture. So a front before it checks signatures, made anew
 * by another library, refuses with the codes of S3, and lets one request through at a time. `folder` is the key's folder, as in the URL.
 */
export async function s3Server(folder = 'team%20a'): Promise<S3Server> {
  const dir = await tempDir();
  const region = 'eu-central-1';
  const back = new (S3rver as S3rverClass)({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    vhostBuckets: false,
    directory: dir.path,
    configureBuckets: [{ name: BUCKET }],
  });
  const { port: backPort } = await back.run();
  const statuses: number[] = [];
  let last: Promise<unknown> = Promise.resolve();
  const exclusive = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work);
    last = done.catch(() => undefined); // who asked gets it
    return done;
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const code = await refusalOf(request, region);
    if (code === undefined) await exclusive(() => forward(request, response, backPort));
    else response.writeHead(403).end(`<?xml version="1.0"?><Error><Code>${code}</Code><Key>secret?</Key></Error>`);
  };
  const front = createServer((request, response) => {
    response.on('finish', () => request.method === 'GET' && statuses.push(response.statusCode));
    answer(request, response).catch(() => response.destroy()); // whoever asked sees that
  });
  const listener = await listening(front);
  const admin = new AwsClient({ ...S3_KEYS, service: 's3', region });
  return {
    url: `${listener.url}/${BUCKET}/${folder}`,
    region,
    statuses,
    put: (archive) =>
      exclusive(async () => {
        const object = `http://127.0.0.1:${backPort}/${BUCKET}/${folder}/bundle.tar.gz`;
        const answer = await admin.fetch(object, { method: 'PUT', body: new Uint8Array(archive) });
        if (!answer.ok) throw new Error(`PUT answered ${answer.status}: ${await answer.text()}`);
        const stored = async (): Promise<boolean> =>
          archive.equals(Buffer.from(await (await admin.fetch(object)).arrayBuffer()));
        await until(stored, { withinMs: 20_000, what: 'the object is stored' });
      }),
    [Symbol.asyncDispose]: async () => {
      await listener[Symbol.asyncDispose]();
      await back.close();
      await dir[Symbol.asyncDispose]();
    },
  };
}

/** The code of S3 for a request that is not signed, or not rightly; undefined for one that is. */
async function refusalOf({ method, url, headers }: IncomingMessage, region: string): Promise<string | undefined> {
  const parts =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=/;
  const [, id, , signedRegion, names = ''] = parts.exec(headers.authorization ?? '') ?? [];
  if (id === undefined) return 'AccessDenied';
  if (id !== S3_KEYS.accessKeyId) return 'InvalidAccessKeyId';
  if (signedRegion !== region) return 'AuthorizationHeaderMalformed';
  const datetime = String(headers['x-amz-date']);
  const time = Date.parse(datetime.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!(Math.abs(Date.now() - time) < MAX_SKEW_MS)) return 'RequestTimeTooSkewed';
  const signed = names.split(';').filter((name) => name !== 'host' && name !== 'x-amz-date');
  const signer = new AwsV4Signer({
    ...S3_KEYS,
    method: method ?? '',
    url: `http://${headers.host}${url}`,
    headers: Object.fromEntries(signed.map((name) => [name, String(headers[name])])),
    service: 's3',
    region,
    datetime,
    allHeaders: true,
  });
  const expected = (await signer.sign()).headers.get('authorization');
  return expected?.split('Signature=')[1] === headers.authorization?.split('Signature=')[1]
    ? undefined
    : 'SignatureDoesNotMatch';
}

async function forward(request: IncomingMessage, response: ServerResponse, port: number): Promise<void> {
  const { method, url, headers } = request;
  if (response.closed) return;
  const closed = once(response, 'close');
  const onward = httpRequest({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', (error) => response.destroy(error));
  request.pipe(onward);
  await closed;
}
