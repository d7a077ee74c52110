import { once } from 'node:events';
import { TLSSocket } from 'node:tls';
import { type Dispatcher, request } from 'undici';
import type { ClientSettings } from '../../../client/options.js';
import { type OutboundConnections, openOutbound } from '../../../client/outbound/outbound.js';
import { ERROR_CODES, errorText, SyncError } from '../../../lib/errors.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import type { Dial } from '../../../lib/net/connect.js';
import { connectFailure, SERVER_CA } from '../../../lib/net/connect-failure.js';
import { bodyStart, headerText } from '../../../lib/net/http-response.js';
import { serverAddress } from '../../../lib/net/server-address.js';
import { plainFailure } from '../../../lib/net/tls-probe.js';
import { redactUrl, silentLogger } from '../../../lib/observe/log.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';
import { expiryFinding } from './tls-check.js';

const SERVER = { id: 'server', subject: 'sync server' };
const CLOCK = { id: 'server_clock', subject: 'clock' };
const CERTIFICATE = { id: 'server_certificate', subject: 'certificate of the server' };
/** Differences of clocks, in seconds: tokens are judged by them. */
const WARN_SECONDS = 5;
const FAIL_SECONDS = 60;
const BODY_BYTES = 64 * 1024;

/**
 * Whether the server answers over a connection like the client's, its certificate, and how far its
 * clock is from ours.
 */
export function serverAddressCheck(
  settings: ClientSettings,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
): Check {
  const place = redactUrl(settings.serverUrl);
  return {
    ...SERVER,
    remedy: `Check SYNC_SERVER_URL (${place}), and that a firewall lets this machine reach it.`,
    run: async (signal) => {
      const outbound = await openOutbound(settings, { log: silentLogger(), env });
      const dispatcher = outbound.dispatcher(limitMs);
      try {
        const answered = await ask(settings.serverUrl, { dispatcher, dial: outbound.dial }, signal);
        return [...answered, ...(await certificate(settings.serverUrl, outbound, signal))];
      } finally {
        outbound.close();
        await dispatcher.destroy();
      }
    },
  };
}

async function ask(
  serverUrl: string,
  { dispatcher, dial }: { dispatcher: Dispatcher; dial: Dial },
  signal: AbortSignal,
): Promise<Finding[]> {
  const { id, subject } = SERVER;
  const place = redactUrl(serverUrl);
  const sentMs = Date.now();
  let answer: Dispatcher.ResponseData;
  try {
    answer = await request(serverAddress(serverUrl, '/healthcheck'), { dispatcher, signal });
  } catch (cause) {
    signal.throwIfAborted();
    const how = { message: `no answer from ${place}`, code: 'server_unreachable', caSetting: SERVER_CA } as const;
    const failure = connectFailure(await plainFailure(cause, serverUrl, dial, signal), how);
    const remedy =
      failure.code === 'server_unreachable'
        ? 'Start the server there, or correct SYNC_SERVER_URL; a firewall or proxy may be in between.'
        : ERROR_CODES[failure.code].remedy;
    return [errorFinding(id, subject, errorText(failure), remedy)];
  }
  const { statusCode: code, headers } = answer;
  const health = jsonOrUndefined((await bodyStart(answer.body, BODY_BYTES)).toString('utf8'));
  const clock = clockFinding(headerText(headers.date), { sentMs, receivedMs: Date.now() });
  const status = typeof health === 'object' && health !== null && 'status' in health ? health.status : undefined;
  if (typeof status !== 'string') {
    const message = `${place} answers with ${code}, not as a sync server does`;
    return [errorFinding(id, subject, message, 'Correct SYNC_SERVER_URL: it is the address of something else.')];
  }
  if (status === 'ok') return [okFinding(id, subject, `${place} answers, status ok`), clock];
  const message = `${place} answers, and its status is ${status.slice(0, 40)}`;
  const remedy = `Run \`policysync doctor server\` on its machine; ${redactUrl(serverAddress(serverUrl, '/healthcheck'))} has the reason, with a token.`;
  return [warningFinding(id, subject, message, remedy), clock];
}

/** Compares the `Date` of a response, which has no fractions of seconds, with our clock. */
export function clockFinding(
  date: string | undefined,
  { sentMs, receivedMs }: { sentMs: number; receivedMs: number },
): Finding {
  const { id, subject } = CLOCK;
  const serverMs = Date.parse(date ?? '');
  if (Number.isNaN(serverMs)) {
    return warningFinding(
      id,
      subject,
      'the server sends no Date, so its clock is not known',
      'Let proxies pass the header Date on.',
    );
  }
  // It answered within these bounds, and its clock was at most a second ahead of what it sent.
  const aheadMs = Math.max(0, serverMs - receivedMs);
  const behindMs = Math.max(0, sentMs - (serverMs + 1000));
  const seconds = Math.round(Math.max(aheadMs, behindMs) / 1000);
  if (seconds <= WARN_SECONDS) return okFinding(id, subject, 'that of the server and this one agree');
  const message = `the clock of the server is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} this one`;
  const remedy =
    'Set both clocks by NTP (`timedatectl` shows whether): tokens are valid too long or not yet otherwise.';
  return seconds > FAIL_SECONDS
    ? errorFinding(id, subject, message, remedy)
    : warningFinding(id, subject, message, remedy);
}

/**
 * The certificate that the server presents; it is trusted, or the request before would have failed.
 */
async function certificate(serverUrl: string, outbound: OutboundConnections, signal: AbortSignal): Promise<Finding[]> {
  const url = new URL(serverUrl);
  if (url.protocol !== 'https:') return [];
  url.protocol = 'wss:';
  try {
    const socket = await outbound.dial(url, signal);
    try {
      if (!(socket instanceof TLSSocket)) return [];
      if (socket.connecting || socket.getPeerX509Certificate() === undefined)
        await once(socket, 'secureConnect', { signal });
      const peer = socket.getPeerX509Certificate();
      if (peer === undefined) return [];
      const names = peer.subjectAltName?.replace(/DNS:|IP Address:/g, '') ?? 'no name';
      const times = { names, fromMs: Date.parse(peer.validFrom), untilMs: Date.parse(peer.validTo) };
      return [expiryFinding(CERTIFICATE, times)];
    } finally {
      socket.destroy();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SyncError) throw error;
    return []; // the finding of the request says what is wrong
  }
}
