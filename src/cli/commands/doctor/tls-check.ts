import type { X509Certificate } from 'node:crypto';
import { errorText } from '../../../lib/errors.js';
import { isLoopback } from '../../../lib/net/proxy.js';
import { type PemFiles, pemCertificates, TlsFiles } from '../../../lib/net/tls.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';

const DAY_MS = 86_400_000;
/** Days before the end of a certificate or token from which on its end is announced. */
export const SOON_DAYS = 14;

/** A listener and the files of its certificate. */
export interface ListenerTls {
  readonly id: string;
  readonly subject: string;
  readonly host: string;
  readonly files: PemFiles;
  /** The settings of certificate and key. */
  readonly settings: string;
}

/**
 * Whether the certificate of a listener can be read, fits its key, and is valid now, with its names
 * and its end.
 */
export function listenerTlsCheck({ id, subject, host, files, settings }: ListenerTls): Check {
  return {
    ...{ id, subject },
    remedy: 'Check that the certificate files can be read.',
    run: async () => {
      if (files.cert === undefined && files.key === undefined) {
        if (isLoopback(host)) return [okFinding(id, subject, 'plain HTTP, for this machine alone')];
        const message = `plain HTTP on ${host}: tokens cross the network in clear text`;
        const remedy = `Set ${settings}, or put a proxy that terminates TLS in front; see docs/how-to/secure.md.`;
        return [warningFinding(id, subject, message, remedy)];
      }
      let chain: X509Certificate[];
      try {
        const { texts } = await TlsFiles.open(files);
        chain = pemCertificates(texts.cert ?? '');
      } catch (error) {
        return [errorFinding(id, subject, errorText(error), `Correct ${settings}; see docs/how-to/secure.md.`)];
      }
      return [chainFinding({ id, subject }, chain)];
    },
  };
}

/**
 * Judges a certificate with its chain: its time, its names, and that each was issued by the next.
 */
export function chainFinding(
  { id, subject }: { id: string; subject: string },
  chain: readonly X509Certificate[],
  nowMs = Date.now(),
): Finding {
  const [leaf] = chain;
  if (leaf === undefined) return errorFinding(id, subject, 'there is no certificate', 'See docs/how-to/secure.md.');
  const names = leaf.subjectAltName?.replace(/DNS:|IP Address:/g, '') ?? 'no name (subjectAltName)';
  const broken = chain.findIndex(
    (one, index) => chain[index + 1]?.checkIssued !== undefined && !one.checkIssued(chain[index + 1] ?? one),
  );
  if (broken >= 0) {
    const message = `certificate ${broken + 2} of the file did not issue certificate ${broken + 1}: callers cannot follow the chain`;
    return errorFinding(
      id,
      subject,
      message,
      'Put the certificate first, then each authority that issued the one before it.',
    );
  }
  return expiryFinding(
    { id, subject },
    { names, fromMs: Date.parse(leaf.validFrom), untilMs: Date.parse(leaf.validTo) },
    nowMs,
  );
}

/** Judges the time of a certificate. */
export function expiryFinding(
  { id, subject }: { id: string; subject: string },
  { names, fromMs, untilMs }: { names: string; fromMs: number; untilMs: number },
  nowMs = Date.now(),
): Finding {
  const until = new Date(untilMs).toISOString().slice(0, 10);
  const remedy = 'Renew the certificate; running programs read the new files by themselves.';
  if (untilMs <= nowMs) return errorFinding(id, subject, `the certificate for ${names} expired on ${until}`, remedy);
  if (fromMs > nowMs) {
    const from = new Date(fromMs).toISOString();
    return errorFinding(
      id,
      subject,
      `the certificate for ${names} is valid only from ${from}`,
      'Check the clock of this machine, or wait.',
    );
  }
  const days = Math.floor((untilMs - nowMs) / DAY_MS);
  if (days < SOON_DAYS) return warningFinding(id, subject, `the certificate for ${names} expires on ${until}`, remedy);
  return okFinding(id, subject, `certificate for ${names}, valid until ${until}`);
}
