import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { FleetDelta, FleetRow, FleetSnapshot } from '../../src/wire/fleet.js';
import { until } from './until.js';

/** One event of a stream, as it came. */
export interface StreamEvent {
  readonly name: string;
  readonly id: string | undefined;
  readonly data: unknown;
  readonly bytes: number;
}

/** A reader of `GET /ui/events`. `await using` ends it. */
export interface FleetStream extends AsyncDisposable {
  readonly status: number;
  readonly headers: Headers;
  readonly events: readonly StreamEvent[];
  /** Comments so far. */
  readonly comments: number;
  readonly isEnded: boolean;
  /** Id of the last event. */
  readonly lastId: string | undefined;
  /** The rows by name, as a page would have them now. */
  readonly rows: ReadonlyMap<string, FleetRow>;
  /** The last snapshot with all that came after it. */
  readonly fleet: Omit<FleetSnapshot, 'clients'>;
  /** Waits until the fleet is like this. */
  sees(what: string, check: (stream: FleetStream) => boolean): Promise<void>;
}

/** Opens the stream of a server. Reads nothing of it before `thaw`. */
export async function fleetStream(
  serverUrl: string,
  headers: Record<string, string> = {},
  thaw: Promise<void> = Promise.resolve(),
): Promise<FleetStream> {
  // Not `fetch`: where it loses a stream, it may connect anew without a request, and a server that stops waits for that.
  const asked = request(`${serverUrl}/ui/events`, { headers, agent: false }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const { statusCode: status = 0 } = response;
  const answered = new Headers(
    Object.entries(response.headers).map(([name, value]): [string, string] => [name, String(value)]),
  );
  const events: StreamEvent[] = [];
  const rows = new Map<string, FleetRow>();
  let fleet: Omit<FleetSnapshot, 'clients'> | undefined;
  let comments = 0;
  let isEnded = false;

  function take(text: string): void {
    if (text.startsWith(':')) comments++;
    const fields = new Map(
      text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    );
    const name = fields.get('event');
    if (name === undefined) return;
    const data: unknown = JSON.parse(fields.get('data') ?? '');
    events.push({ name, id: fields.get('id'), data, bytes: text.length });
    if (name === 'snapshot') {
      const { clients, ...rest } = data as FleetSnapshot;
      rows.clear();
      for (const row of clients) rows.set(row.id, row);
      fleet = rest;
    }
    if (name === 'delta' && fleet !== undefined) {
      const { clients = [], gone = [], changes = [], ...rest } = data as FleetDelta;
      for (const row of clients) rows.set(row.id, row);
      for (const id of gone) rows.delete(id);
      const fresh = new Set(changes.map(({ id }) => id));
      const merged = [...changes, ...fleet.changes.filter(({ id }) => !fresh.has(id))].sort((a, b) => b.at - a.at);
      fleet = Object.assign(fleet, rest, { changes: merged.slice(0, 50) });
    }
  }

  async function read(): Promise<void> {
    await thaw;
    let left = '';
    for await (const chunk of response.setEncoding('utf8')) {
      left += String(chunk);
      const parts = left.split('\n\n');
      left = parts.pop() ?? '';
      parts.forEach(take);
    }
  }
  const reading = read()
    .catch(() => undefined) // it was cut: `isEnded` says so
    .finally(() => {
      isEnded = true;
    });

  const stream: FleetStream = {
    status,
    headers: answered,
    events,
    rows,
    get comments() {
      return comments;
    },
    get isEnded() {
      return isEnded;
    },
    get lastId() {
      return events.findLast(({ id }) => id !== undefined)?.id;
    },
    get fleet() {
      if (fleet === undefined) throw new Error('no snapshot has come');
      return fleet;
    },
    sees: async (what, check) => {
      await until(() => events.length > 0 && check(stream), { withinMs: 20_000, what });
    },
    [Symbol.asyncDispose]: async () => {
      response.destroy();
      await reading;
    },
  };
  return stream;
}
