import { createServer } from 'node:net';
import { Agent, request } from 'undici';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';

/** An address that a program listens on, and how to recognize this program there. */
export interface ListenPlace {
  readonly id: string;
  readonly subject: string;
  readonly host: string;
  readonly port: number;
  /** The settings of host and port. */
  readonly settings: string;
  /** What runs there if `isOurs` of the response to `path`. */
  readonly ours: {
    readonly what: string;
    readonly path: string;
    isOurs(answer: object): boolean;
    /** What does not work there; undefined where all does. */
    trouble?(answer: object): string | undefined;
  };
  /** Why what runs there cannot have these settings; undefined where it may have. */
  readonly otherThan?: () => string | undefined;
  readonly tls: boolean;
}

/** Maximum size of a response. */
const ANSWER_BYTES = 256 * 1024;

/** Whether the address is free, or held by the program that the settings are for. */
export function portCheck(place: ListenPlace): Check {
  const { id, subject, settings } = place;
  return {
    ...{ id, subject },
    remedy: `Find out what holds the port, or set ${settings}.`,
    run: async (signal) => [await portFinding(place, signal)],
  };
}

async function portFinding(place: ListenPlace, signal: AbortSignal): Promise<Finding> {
  const { id, subject, host, port, settings, ours, otherThan } = place;
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const code = await listenProblem(host, port);
  if (code === undefined) return okFinding(id, subject, port === 0 ? `${host}, a free port` : `${address} is free`);
  if (code === 'EADDRINUSE') {
    const remedy = `Stop the program that listens there (\`ss -ltnp 'sport = :${port}'\` names it), or set ${settings}.`;
    const found = await ourAnswer(place, signal);
    if (found !== undefined) {
      const other = otherThan?.();
      if (other !== undefined)
        return warningFinding(id, subject, `${address} is held by another one than this: ${other}`, remedy);
      const held = `${address} is held by ${ours.what} that runs there`;
      const trouble = ours.trouble?.(found);
      if (trouble === undefined) return okFinding(id, subject, held);
      return warningFinding(
        id,
        subject,
        `${held}: ${trouble}`,
        `GET ${ours.path} there has all of it, with a token if it has keys.`,
      );
    }
    return errorFinding(id, subject, `${address} is in use by another program`, remedy);
  }
  if (code === 'EACCES') {
    const remedy = `Choose a port from 1024 on, or give the program the right to use it (CAP_NET_BIND_SERVICE).`;
    return errorFinding(id, subject, `this user may not listen on ${address}`, remedy);
  }
  const message =
    code === 'EADDRNOTAVAIL' ? `${host} is not an address of this machine` : `${address} cannot be used (${code})`;
  return errorFinding(id, subject, message, `Correct ${settings}.`);
}

/** Why the address cannot be listened on; undefined if it can. */
async function listenProblem(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  const failure = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    server.once('error', resolve);
    server.listen({ host, port, exclusive: true }, () => resolve(undefined));
  });
  if (failure !== undefined) return failure.code ?? failure.message;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return undefined;
}

/**
 * Asks who is there, without any secret: the certificate, perhaps for another name, does not
 * matter.
 */
async function ourAnswer({ host, port, tls, ours }: ListenPlace, signal: AbortSignal): Promise<object | undefined> {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host;
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  try {
    const url = `${tls ? 'https' : 'http'}://${name}:${port}${ours.path}`;
    const { body } = await request(url, { dispatcher, signal, headersTimeout: 2000, bodyTimeout: 2000 });
    let text = '';
    for await (const chunk of body.setEncoding('utf8')) {
      text += String(chunk);
      if (text.length > ANSWER_BYTES) return undefined;
    }
    const answer = jsonOrUndefined(text);
    return typeof answer === 'object' && answer !== null && ours.isOurs(answer) ? answer : undefined;
  } catch {
    return undefined; // whatever it is, it does not answer as ours does
  } finally {
    await dispatcher.destroy();
  }
}
