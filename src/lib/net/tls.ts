import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';
import { errorText, failureFields, SyncError } from '../errors.js';
import type { Logger } from '../observe/log.js';

/** A file with PEM text, and the setting that names it. */
export interface PemFile {
  readonly setting: string;
  readonly path: string;
}

/**
 * The files of one end of TLS: its own certificate (with the chain) and key, and the authorities
 * that it trusts.
 */
export interface PemFiles {
  readonly cert?: PemFile | undefined;
  readonly key?: PemFile | undefined;
  readonly ca?: PemFile | undefined;
}

/**
 * Their texts, checked: certificates are certificates, and the key is the one of the first
 * certificate.
 */
export interface PemTexts {
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

/** How often files are checked: a new certificate is in use at most this much later. */
const LOOK_INTERVAL_MS = 5_000;

/** A {@link PemFile}, where its setting is set. */
export function pemFile(setting: string, path: string | undefined): PemFile | undefined {
  return path === undefined ? undefined : { setting, path };
}

/**
 * PEM files that are read again when they change, so that a renewed certificate needs no restart.
 */
export class TlsFiles {
  readonly #files: PemFiles;
  #texts: PemTexts;
  #stamp: string;

  private constructor(files: PemFiles, texts: PemTexts, stamp: string) {
    this.#files = files;
    this.#texts = texts;
    this.#stamp = stamp;
  }

  /**
   * Reads the files. Rejects with `config_invalid` that names setting and file: one of certificate
   * and key without the other, a file that cannot be read or is not PEM, a key that is encrypted or
   * not that of the certificate.
   */
  static async open(files: PemFiles): Promise<TlsFiles> {
    const { cert, key } = files;
    if ((cert === undefined) !== (key === undefined)) {
      throw new SyncError('config_invalid', `${(cert ?? key)?.setting} needs certificate and key: only one is set`);
    }
    // Stamp first: a change during the read is found by the next check.
    const stamp = await stampOf(files);
    return new TlsFiles(files, await readAll(files), stamp);
  }

  /** Contents as they were read last; a new object after each change. */
  get texts(): PemTexts {
    return this.#texts;
  }

  /**
   * Reads changed files again; returns whether there were any. Throws and keeps {@link texts} if
   * they cannot be used.
   */
  async refresh(): Promise<boolean> {
    const stamp = await stampOf(this.#files);
    if (stamp === this.#stamp) return false;
    this.#texts = await readAll(this.#files);
    this.#stamp = stamp;
    return true;
  }

  /**
   * Checks the files every {@link LOOK_INTERVAL_MS} and calls `onChange` after a change. A
   * certificate whose key is not written yet is read again by the next check; until then the pair
   * before stays in use. Returns a function that ends the checks.
   */
  watch(deps: { log: Logger; onChange?: () => void }, intervalMs = LOOK_INTERVAL_MS): () => void {
    let problem: string | undefined;
    let looking = false;
    const look = async (): Promise<void> => {
      if (looking) return;
      looking = true;
      try {
        if (await this.refresh()) {
          deps.onChange?.();
          deps.log.info({ files: pathsOf(this.#files) }, 'certificate files were read again');
        }
        problem = undefined;
      } catch (error) {
        const text = errorText(error);
        if (text !== problem) deps.log.error(failureFields(error), 'changed certificate files cannot be used');
        problem = text;
      } finally {
        looking = false;
      }
    };
    const timer = setInterval(() => {
      look().catch((error: unknown) =>
        deps.log.error(failureFields(error, 'stack'), 'certificate files cannot be checked'),
      );
    }, intervalMs);
    timer.unref();
    return () => clearInterval(timer);
  }
}

/** The other end of a connection. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** TLS of connections that we open. Ask for the context at each new one: files may have changed. */
export interface OutgoingTls {
  context(to: Endpoint): SecureContext;
}

/**
 * `there` for connections to one of the endpoints, `elsewhere` for all others: who is to see our
 * certificate.
 */
export function tlsFor(endpoints: readonly Endpoint[], there: OutgoingTls, elsewhere: OutgoingTls): OutgoingTls {
  const isThere = (to: Endpoint): boolean => endpoints.some(({ host, port }) => host === to.host && port === to.port);
  return { context: (to) => (isThere(to) ? there : elsewhere).context(to) };
}

/**
 * TLS of connections that we open. `trust`: `also` the authorities of the CA file beside the
 * well-known ones, or `only` those. Without a CA file: the well-known ones. `extra`: more
 * authorities, as PEM text.
 */
export function outgoingTls(files: TlsFiles, trust: 'also' | 'only', extra?: string): OutgoingTls {
  let built: { texts: PemTexts; context: SecureContext } | undefined;
  return {
    context: () => {
      const { texts } = files;
      if (built?.texts !== texts) {
        const { ca } = texts;
        const more = trust === 'also' ? [...rootCertificates, ...(extra === undefined ? [] : [extra])] : [];
        // Without `ca` Node takes its own, and what NODE_EXTRA_CA_CERTS has.
        const trusted = ca === undefined ? {} : { ca: [...more, ca] };
        built = { texts, context: createSecureContext({ ...ownPair(texts), ...trusted, minVersion: 'TLSv1.2' }) };
      }
      return built.context;
    },
  };
}

/**
 * PEM text of the file that NODE_EXTRA_CA_CERTS names; undefined if there is none, or it cannot be
 * read.
 */
export async function extraAuthorities(env: Readonly<Record<string, string | undefined>>): Promise<string | undefined> {
  const path = env.NODE_EXTRA_CA_CERTS ?? '';
  // Node itself warns of a file that it cannot read, and continues: so do we.
  return path === '' ? undefined : await readFile(path, 'utf8').catch(() => undefined);
}

function ownPair({ cert, key }: PemTexts): { cert: string; key: string } | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

function listOf(files: PemFiles): PemFile[] {
  return [files.cert, files.key, files.ca].filter((file) => file !== undefined);
}

function pathsOf(files: PemFiles): string[] {
  return listOf(files).map(({ path }) => path);
}

async function stampOf(files: PemFiles): Promise<string> {
  const stamps = listOf(files).map(async (file) => {
    const { ino, size, mtimeMs } = await stat(file.path).catch((cause: unknown) => {
      throw unusable(file, 'cannot be read', cause);
    });
    return `${ino}:${size}:${mtimeMs}`;
  });
  return (await Promise.all(stamps)).join();
}

async function readAll({ cert, key, ca }: PemFiles): Promise<PemTexts> {
  const [certText, keyText, caText] = await Promise.all([readText(cert), readText(key), readText(ca)]);
  if (ca !== undefined && caText !== undefined) certificatesIn(ca, caText);
  if (cert !== undefined && certText !== undefined && key !== undefined && keyText !== undefined) {
    if (certificatesIn(cert, certText)[0]?.checkPrivateKey(privateKey(key, keyText)) !== true) {
      throw unusable(key, `is not the key of the first certificate in ${cert.path}`);
    }
  }
  return {
    ...(certText === undefined ? {} : { cert: certText }),
    ...(keyText === undefined ? {} : { key: keyText }),
    ...(caText === undefined ? {} : { ca: caText }),
  };
}

async function readText(file: PemFile | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    return await readFile(file.path, 'utf8');
  } catch (cause) {
    throw unusable(file, 'cannot be read', cause);
  }
}

/** The certificates in a PEM text. Throws for one that cannot be read. */
export function pemCertificates(text: string): X509Certificate[] {
  return text
    .split('-----BEGIN ')
    .slice(1)
    .flatMap((block) => {
      const label = ['CERTIFICATE', 'TRUSTED CERTIFICATE'].find((name) => block.startsWith(`${name}-----`));
      const end = block.indexOf(`-----END ${label}-----`);
      if (label === undefined || end === -1) return [];
      return new X509Certificate(`-----BEGIN ${block.slice(0, end)}-----END ${label}-----`);
    });
}

/** All certificates of a text; at least one. */
function certificatesIn(file: PemFile, text: string): X509Certificate[] {
  let found: X509Certificate[];
  try {
    found = pemCertificates(text);
  } catch (cause) {
    throw unusable(file, 'has a damaged certificate', cause);
  }
  if (found.length === 0) throw unusable(file, 'has no certificate in PEM form');
  return found;
}

/** The cause is left out: it is about a secret. */
function privateKey(file: PemFile, text: string): KeyObject {
  if (/ENCRYPTED/.test(text)) throw unusable(file, 'is encrypted; it must be a key without a passphrase');
  try {
    return createPrivateKey(text);
  } catch {
    throw unusable(file, 'has no private key in PEM form');
  }
}

function unusable(file: PemFile, why: string, cause?: unknown): SyncError {
  return new SyncError('config_invalid', `${file.setting}: ${file.path} ${why}`, { cause });
}
