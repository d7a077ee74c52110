import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { get as httpsGet, type RequestOptions } from 'node:https';
import { text } from 'node:stream/consumers';
import * as z from 'zod';
import { errorText, SyncError } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import { clientHealth } from '../../../wire/client-health.js';

/**
 * Where a program on this machine listens, and the PEM files of its certificate and key if it
 * speaks TLS.
 */
export interface HealthTarget {
  readonly host: string;
  readonly port: number;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/**
 * Asks a health address and returns what is worth knowing beside "it works", usually nothing.
 * Rejects with `unhealthy` for a status other than 200, with the connection's error where there is
 * no answer.
 */
export async function askHealth(target: HealthTarget, path: string, timeoutMs: number): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs);
  const tls = await ownCertificate(target);
  const url = `${tls === undefined ? 'http' : 'https'}://${target.host.includes(':') ? `[${target.host}]` : target.host}:${target.port}${path}`;
  let status: number | undefined;
  let body: string;
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      // A loopback name is served whatever SYNC_ALLOWED_HOSTS has.
      const options = { ...tls, signal, agent: false, headers: { host: 'localhost' } };
      (tls === undefined ? httpGet : httpsGet)(url, options, resolve).once('error', reject);
    });
    status = response.statusCode;
    body = await text(response);
  } catch (cause) {
    const reason = signal.aborted ? `no answer within ${timeoutMs / 1000} s` : errorText(cause);
    throw new Error(`${url} does not answer: ${reason}`, { cause });
  }
  const said = saidOf(body);
  if (status === 200) return said;
  throw new SyncError('unhealthy', `${url} answers ${status}${said === '' ? '' : `: ${said}`}`);
}

/**
 * TLS towards the program itself: it has to present the certificate of its own settings, whatever
 * name and authority that one has. The same certificate identifies us, where callers must present
 * one.
 */
async function ownCertificate({ cert, key }: HealthTarget): Promise<RequestOptions | undefined> {
  if (cert === undefined) return undefined;
  const pem = await readFile(cert);
  const own = new X509Certificate(pem).fingerprint256;
  return {
    ca: pem,
    allowPartialTrustChain: true,
    cert: pem,
    ...(key === undefined ? {} : { key: await readFile(key) }),
    checkServerIdentity: (_name, peer) =>
      peer.fingerprint256 === own ? undefined : new Error(`it presents another certificate than ${cert}`),
  } as RequestOptions;
}

const { engine, policy, server } = clientHealth.shape;

/**
 * What the answers of both programs may tell; all of it is optional: each has a part, versions
 * differ, and texts are for tokens.
 */
const answer = z
  .object({
    status: z.string(),
    reason: z.string(),
    update_log: z.object({ error: z.string() }).partial(),
    server: server.pick({ error: true, code: true }).partial(),
    engine: engine.pick({ error: true }).partial(),
    policy: z.object({ error: z.union([z.string(), policy.shape.error]) }).partial(),
    data: z.object({ failing: z.array(z.object({ path: z.string(), error: z.string() }).partial()) }).partial(),
  })
  .partial();

/** The status if it is another one than `ok`, with the first reason. */
function saidOf(body: string): string {
  let value: unknown;
  try {
    value = parseJson(body);
  } catch {
    return ''; // the status code says enough
  }
  const { success, data: told } = answer.safeParse(value);
  if (!success || told.status === undefined || told.status === 'ok') return '';
  const { reason: own, update_log: log, server: peer, engine: opa, policy: code, data } = told;
  const [failing] = data?.failing ?? [];
  const ofPolicy = typeof code?.error === 'string' ? code.error : code?.error?.message;
  const ofData = failing?.path === undefined ? undefined : `${failing.path}: ${failing.error}`;
  const reason = [own, log?.error, peer?.error, opa?.error, ofPolicy, ofData, peer?.code].find(
    (each) => each != null && each !== '',
  );
  return `${told.status}${reason === undefined ? '' : ` (${reason})`}`;
}
