import { createServer, request as forward } from 'node:http';
import { pipeline } from 'node:stream';
import { listening } from './http-server.js';

/** A request that a relay has seen, while it goes on. */
export interface RelayedCall {
  readonly method: string;
  readonly url: string;
  /** Bytes of its body that were passed on so far, and how that ended: with all of it, or broken off. */
  bytes: number;
  end: 'whole' | 'torn' | undefined;
  /** Undefined until the engine has answered. */
  status: number | undefined;
}

/** Stands in front of an OPA and passes every byte on as it comes. `await using` ends it. */
export interface EngineRelay extends AsyncDisposable {
  readonly url: string;
  /** The writes of one document so far, oldest first. */
  puts(path: string): readonly RelayedCall[];
}

/** Starts an {@link EngineRelay} in front of `engineUrl`. */
export async function engineRelay(engineUrl: string): Promise<EngineRelay> {
  const calls: RelayedCall[] = [];
  const relay = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming;
    const call: RelayedCall = { method, url, bytes: 0, end: undefined, status: undefined };
    calls.push(call);
    const onward = forward(engineUrl + url, { method, headers }, (answer) => {
      call.status = answer.statusCode;
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.on('data', (chunk: Buffer) => {
      call.bytes += chunk.length;
    });
    // What breaks on one side breaks on the other.
    pipeline(incoming, onward, (error) => {
      call.end = error === undefined || error === null ? 'whole' : 'torn';
    });
    onward.on('error', () => outgoing.destroy());
    incoming.on('close', () => {
      if (!incoming.complete) onward.destroy();
    });
  });
  return {
    ...(await listening(relay)),
    puts: (path) => calls.filter(({ method, url }) => method === 'PUT' && url === `/v1/data${path}`),
  };
}
