import type { Dispatcher } from 'undici';
import { type Dial, socketDial } from '../../lib/net/connect.js';
import { endpointOf, readProxies } from '../../lib/net/proxy.js';
import { extraAuthorities, type OutgoingTls, outgoingTls, pemFile, TlsFiles, tlsFor } from '../../lib/net/tls.js';
import type { Logger } from '../../lib/observe/log.js';
import { createDispatcher } from './dispatcher.js';
import type { OutboundGate } from './gate.js';

/** Settings of the client's outbound connections. */
export interface OutboundSettings {
  readonly serverUrl: string;
  readonly serverWsUrl: string | undefined;
  readonly selfSignedAllowed: boolean;
  readonly trustedCaFile: string | undefined;
  readonly clientCertFile: string | undefined;
  readonly clientKeyFile: string | undefined;
}

/**
 * All outbound connections except to the engine: trusted authorities, the client's certificate,
 * proxies.
 */
export interface OutboundConnections {
  readonly tls: OutgoingTls;
  /** Opens the socket to the server. */
  readonly dial: Dial;
  /** HTTP connections; the caller closes them. Pass a gate for addresses that a peer names. */
  dispatcher(silenceTimeoutMs: number, gate?: OutboundGate): Dispatcher;
  /** Stops watching certificate files. */
  close(): void;
}

/**
 * Timeout of a connection to the server, including the handshake of a tunnel (opal-protocol P1.1).
 */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * The setting of an authority that has no effect, since the other one that it needs is not set; and
 * what to do. Pure.
 */
export function idleTrust({
  selfSignedAllowed,
  trustedCaFile,
}: Pick<OutboundSettings, 'selfSignedAllowed' | 'trustedCaFile'>): { message: string; remedy: string } | undefined {
  const [allowed, file] = ['SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED', 'SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE'];
  if (selfSignedAllowed === (trustedCaFile !== undefined)) return undefined;
  return selfSignedAllowed
    ? { message: `${allowed} has no effect without ${file}`, remedy: `Set ${file} to the authority to trust as well.` }
    : {
        message: `${file} has no effect unless ${allowed} is true`,
        remedy: `Set ${allowed}=true: the file is trusted then, and certificates are verified as before.`,
      };
}

/**
 * Opens the connections of the settings. As in OPAL (opal-protocol P8.2), the CA file is used only
 * with SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED, in addition to the well-known authorities;
 * verification is never off. Our own certificate is sent only to the sync server, not to data
 * sources. Rejects with `config_invalid`.
 */
export async function openOutbound(
  settings: OutboundSettings,
  { log, env }: { log: Logger; env: Readonly<Record<string, string | undefined>> },
): Promise<OutboundConnections> {
  const { selfSignedAllowed, trustedCaFile } = settings;
  const idle = idleTrust(settings);
  if (idle !== undefined) log.warn({}, idle.message);
  const ca = selfSignedAllowed ? pemFile('SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE', trustedCaFile) : undefined;
  const cert = pemFile('SYNC_CLIENT_TLS_CERT_FILE', settings.clientCertFile);
  const key = pemFile('SYNC_CLIENT_TLS_KEY_FILE', settings.clientKeyFile);
  const proxies = readProxies(env);
  const extra = ca === undefined ? undefined : await extraAuthorities(env);
  const own = await TlsFiles.open({ ca, cert, key });
  const trusted = await TlsFiles.open({ ca });

  const servers = [settings.serverUrl, ...(settings.serverWsUrl === undefined ? [] : [settings.serverWsUrl])];
  const tls = tlsFor(
    servers.map((url) => endpointOf(new URL(url))),
    outgoingTls(own, 'also', extra),
    outgoingTls(trusted, 'also', extra),
  );
  const stops = [own, trusted].map((files) => files.watch({ log }));
  return {
    tls,
    dial: socketDial({ timeoutMs: CONNECT_TIMEOUT_MS, tls }, proxies),
    dispatcher: (silenceTimeoutMs, gate) =>
      createDispatcher(silenceTimeoutMs, env, { connectTimeoutMs: CONNECT_TIMEOUT_MS, tls, gate }),
    close: () => {
      for (const stop of stops) stop();
    },
  };
}
