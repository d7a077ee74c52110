import type { ServerOptions } from 'node:https';
import { createSecureContext, type SecureContextOptions, Server as TlsServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import { errorText, SyncError } from '../lib/errors.js';
import { type PemFiles, TlsFiles } from '../lib/net/tls.js';
import type { Logger } from '../lib/observe/log.js';

/**
 * Longest handshake; Node's own limit would let a slow caller hold a connection for two minutes.
 */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/**
 * The certificate of a listener, and the authority of client certificates if they are required;
 * undefined if none of its settings is set. Rejects with `config_invalid`.
 */
export async function openListenerTls(files: PemFiles): Promise<TlsFiles | undefined> {
  const { cert, key, ca } = files;
  if (ca !== undefined && cert === undefined && key === undefined) {
    throw new SyncError('config_invalid', `${ca.setting} needs a certificate and a key of the listener`);
  }
  return cert === undefined && key === undefined ? undefined : await TlsFiles.open(files);
}

/**
 * Options of Node's HTTPS server: TLS 1.2 at least, and a client certificate of the CA where one is
 * set.
 */
export function listenerOptions(files: TlsFiles): ServerOptions {
  const mustIdentify = files.texts.ca !== undefined;
  return {
    ...contextOptions(files),
    requestCert: mustIdentify,
    rejectUnauthorized: mustIdentify,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    // Called at each handshake that names a host: also for the second address of `localhost`, which
    // has its own server.
    SNICallback: (_name, done) => done(null, contextOf(files)),
  };
}

/**
 * Serves changed certificate files without a restart, and logs handshakes that fail, until the app
 * closes.
 */
export function keepListenerCurrent(app: FastifyInstance, files: TlsFiles, log: Logger): void {
  const { server } = app;
  if (!(server instanceof TlsServer)) throw new Error('the app was not made with TLS');
  const stop = files.watch({ log, onChange: () => server.setSecureContext(contextOptions(files)) });
  const lines = new RareLines();
  server.on('tlsClientError', (error, { remoteAddress: address }) => {
    const more = lines.next(`${address} ${'code' in error ? String(error.code) : error.name}`);
    if (more === undefined) return;
    log.info({ address, error: errorText(error), ...(more > 0 && { more }) }, 'TLS connection refused');
  });
  app.addHook('onClose', async () => stop());
}

const contexts = new WeakMap<object, ReturnType<typeof createSecureContext>>();

function contextOf(files: TlsFiles): ReturnType<typeof createSecureContext> {
  const context = contexts.get(files.texts) ?? createSecureContext(contextOptions(files));
  contexts.set(files.texts, context);
  return context;
}

function contextOptions({ texts }: TlsFiles): SecureContextOptions {
  return { ...texts, minVersion: 'TLSv1.2' };
}

/** Shortest time between two lines about the same thing. */
const EVERY_MS = 60_000;
/** Things that are remembered; about more of them nothing is said until some are forgotten. */
const MOST = 1000;

/**
 * What happens often is said once a minute for each address, or whatever else names it: nobody
 * fills a log without a token.
 */
export class RareLines {
  readonly #said = new Map<string, { readonly atMs: number; unsaid: number }>();

  /**
   * How often it has happened unsaid since it was said last; undefined: it is not to be said now.
   */
  next(name: string, nowMs = performance.now()): number | undefined {
    const known = this.#said.get(name);
    if (known !== undefined && nowMs - known.atMs < EVERY_MS) {
      known.unsaid++;
      return undefined;
    }
    // The oldest is first: they are put in again when they are said.
    for (const [other, { atMs }] of this.#said) {
      if (nowMs - atMs < EVERY_MS) break;
      this.#said.delete(other);
    }
    if (this.#said.size >= MOST) return undefined;
    this.#said.delete(name);
    this.#said.set(name, { atMs: nowMs, unsaid: 0 });
    return known?.unsaid ?? 0;
  }
}
