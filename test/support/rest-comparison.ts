import { Agent, request as httpRequest } from 'node:http';
import { gunzipSync } from 'node:zlib';

/** A request that both engines get. */
export interface ComparedRequest {
  readonly name: string;
  readonly method?: string;
  /** Path and query, as they are sent. */
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** What is compared of a response. */
export interface ComparedAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly encoding: string | undefined;
  readonly location: string | undefined;
  /** Unpacked, with figures masked by {@link masked}. */
  readonly body: string;
}

/** Times that a request is sent before two answers differ: OPA writes the locals of a trace in an order of chance. */
const ATTEMPTS = 50;

/** Connections stay: to make one takes longer than most answers. Who does not speak has no hold on the process. */
const agent = new Agent({ keepAlive: true });

/** Sends a request with nothing added but `Host`, `Connection` and a length. */
export function send(
  port: number,
  { method = 'GET', target, headers = {}, body }: ComparedRequest,
): Promise<ComparedAnswer> {
  return new Promise((resolve, reject) => {
    const length =
      body === undefined || 'transfer-encoding' in headers ? {} : { 'content-length': Buffer.byteLength(body) };
    const options = { host: '127.0.0.1', port, method, path: target, headers: { ...length, ...headers }, agent };
    const sent = httpRequest(options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const { 'content-type': type, 'content-encoding': encoding, location } = response.headers;
        const bytes = Buffer.concat(chunks);
        const text = (encoding === 'gzip' ? gunzipSync(bytes) : bytes).toString();
        resolve({
          status: response.statusCode ?? 0,
          type,
          encoding,
          location,
          body: target.startsWith('/v1/policies?') || target === '/v1/policies' ? sorted(text) : masked(text),
        });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** A list of policies by id: OPA lists them in a new order each time. */
function sorted(text: string): string {
  const { result } = JSON.parse(text) as { result?: { id: string }[] };
  return result === undefined ? text : JSON.stringify(result.sort((a, b) => (a.id < b.id ? -1 : 1)));
}

/**
 * The text without what differs from run to run: the values of metrics (`timer_..._ns`, `counter_...`, `histogram_...`: their names
 * stay), and what the build says of itself in `provenance`.
 */
export function masked(text: string): string {
  return text
    .replaceAll(/("(?:timer|counter)_\w+": ?)\d+/g, '$1"figure"')
    .replaceAll(/("histogram_\w+": ?)\{[^}]*\}/g, '$1"figures"')
    .replaceAll(/("build_(?:commit|timestamp|hostname)": ?)"[^"]*"/g, '$1"build"');
}

/**
 * Sends a request to both ports, and again where the answers differ, since OPA itself lists some things in a new order each time.
 * Returns what differs; undefined if nothing does.
 */
export async function difference(request: ComparedRequest, real: number, ours: number): Promise<string | undefined> {
  const wanted = new Set<string>();
  const got = new Set<string>();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    wanted.add(JSON.stringify(await send(real, request)));
    got.add(JSON.stringify(await send(ours, request)));
    if ([...got].some((answer) => wanted.has(answer))) return undefined;
  }
  const [first = ''] = wanted;
  const [other = ''] = got;
  let at = 0;
  while (at < first.length && first[at] === other[at]) at++;
  const from = Math.max(0, at - 200);
  return `${request.name}:\n  OPA:  ${first.slice(from, at + 300)}\n  ours: ${other.slice(from, at + 300)}`;
}
