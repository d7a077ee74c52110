import { type Dispatcher, request } from 'undici';
import type { GoHost, HostRequest, HostResponse } from '../../../embedded/go/go-host.js';
import { SyncError } from '../../../lib/errors.js';
import { Pieces } from '../../../lib/net/pieces.js';
import type { OutboundGate } from '../../outbound/gate.js';

/** Request headers that the connection decides. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'expect', 'keep-alive', 'proxy-authorization', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
]);

/** Dependencies of {@link httpSendHost}. */
export interface HttpSendDeps {
  /** Connects only where the gate allows it. */
  readonly dispatcher: Dispatcher;
  readonly gate: OutboundGate;
  /** Most bytes of a response. */
  readonly limitBytes: number;
}

/**
 * Sends the requests of `http.send` in policies, as every other request to an address that a peer
 * names: through the gate.
 */
export function httpSendHost({ dispatcher, gate, limitBytes }: HttpSendDeps): GoHost {
  return {
    async fetch({ method, url: address, headers, body }: HostRequest, signal: AbortSignal): Promise<HostResponse> {
      const url = new URL(address);
      if (url.protocol !== 'http:' && url.protocol !== 'https:') {
        throw new SyncError('address_refused', `http.send: ${url.protocol} is not sent, only http: and https: are`);
      }
      const problem = gate.methodProblem(method);
      if (problem !== undefined) throw new SyncError('address_refused', `http.send: ${problem}`);
      const sent = sentHeaders(headers);
      for (const host of [sent.host ?? []].flat()) await gate.checkHostHeader(url, host);
      const response = await request(url, {
        ...{ dispatcher, signal, headers: sent },
        method: method as Dispatcher.HttpMethod, // one of SYNC_FETCH_METHODS
        ...(body.length === 0 ? {} : { body }),
      });
      const bytes = await limited(response.body, limitBytes, address);
      return { status: response.statusCode, headers: valuesOf(response.headers), body: bytes };
    },
  };
}

/** The headers of a request: one value as a text, which the header Host has to be. */
function sentHeaders(headers: HostRequest['headers']): Record<string, string | string[]> {
  const sent = Object.entries(headers).flatMap(([name, values]) => {
    const lower = name.toLowerCase();
    const [first = '', ...more] = values;
    return OF_CONNECTION.has(lower) ? [] : [[lower, more.length === 0 ? first : [...values]] as const];
  });
  return Object.fromEntries(sent);
}

async function limited(body: AsyncIterable<Uint8Array>, limitBytes: number, address: string): Promise<Uint8Array> {
  const pieces = new Pieces();
  for await (const chunk of body) {
    pieces.push(chunk);
    if (pieces.bytes > limitBytes) {
      const { host } = new URL(address);
      throw new SyncError('fetch_too_large', `http.send: the response of ${host} has more than ${limitBytes} bytes`);
    }
  }
  return pieces.join();
}

/** The headers of a response, with names as Go writes them: it finds no other ones. */
function valuesOf(headers: Record<string, string | string[] | undefined>): Record<string, readonly string[]> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[canonical(name), typeof value === 'string' ? [value] : value] as const],
    ),
  );
}

/** `content-type` as `Content-Type`. */
function canonical(name: string): string {
  return name.toLowerCase().replaceAll(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}
