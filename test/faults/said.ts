import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { answerOf } from '../../src/fleet-rules/answer.js';
import { fleetSnapshot } from '../../src/wire/fleet.js';
import { type Answer, field, request } from '../support/http.js';
import type { Client } from './client.js';
import type { Publication } from './journal.js';
import { concerns } from './model.js';
import type { SaidPosition } from './sampler.js';
import type { Timeline } from './timeline.js';

/** What servers say of clients, held against their engines. */

/** One wait that ended. */
interface EndedWait {
  readonly publication: Publication;
  readonly clients: readonly Client[];
  /** `Client.life` of each before the update was sent. */
  readonly lives: readonly string[];
  readonly answer: Answer;
  readonly time: Timeline;
  readonly failures: string[];
}

/**
 * A 200 says that all have it: every engine must hold the update by now, or something newer. Who is away may lack it, if the answer
 * names it.
 */
export async function judgeWait({ publication, clients, lives, answer, time, failures }: EndedWait): Promise<void> {
  const [entry] = publication.entries;
  if (answer.status !== 200 || entry === undefined) return;
  const away = field(answer.json, 'away');
  const named = new Set(Array.isArray(away) ? away.map((each) => String(field(each, 'client_id'))) : []);
  // Of many it names some: then nobody can tell who may lack it.
  if (Number(field(answer.json, 'away_count')) > named.size) return;
  await Promise.all(
    clients.map(async (client, at) => {
      const { name } = client.program;
      if (!concerns(entry.topics, client.topics)) return;
      const n = await heldBy(client, entry.path);
      // An engine that was killed in between may be empty for a moment, and a frozen one says nothing.
      if (named.has(name) || n === 'nothing said' || client.life() !== lives[at]) return;
      if (typeof n === 'number' && n >= entry.n) return;
      const text = `a wait for seq ${publication.seq} was answered "${answer.text}", and ${entry.path} of ${name} had ${n ?? 'nothing'}, not entry ${entry.n}`;
      time.say(`FAILURE ${text}`);
      failures.push(`at ${(time.now() / 1000).toFixed(3)}: ${text}`);
    }),
  );
}

async function heldBy({ engineUrl }: Client, path: string): Promise<unknown> {
  try {
    const held = await request(`${engineUrl}/v1/data${path}`, { signal: AbortSignal.timeout(2000) });
    return field(held.json, 'result', 'n');
  } catch {
    return 'nothing said';
  }
}

/** What a server shows as the position of a client that it has connected; undefined where it shows none, or does not answer. */
export async function positionShown(serverUrl: string, client: string): Promise<SaidPosition | undefined> {
  try {
    const answer = await request(`${serverUrl}/clients?id=${client}`, { signal: AbortSignal.timeout(1000) });
    const shown = field(answer.json, 'clients');
    const row = Array.isArray(shown) ? shown[0] : undefined;
    const held = field(row, 'data', 'held') as { applied_through: number; unresolved: number[] } | null | undefined;
    const epoch = field(row, 'data', 'held', 'epoch') ?? field(answer.json, 'epoch');
    if (field(row, 'connected') !== true || held === undefined || held === null || typeof epoch !== 'string')
      return undefined;
    return { epoch, through: held.applied_through, unresolved: held.unresolved };
  } catch {
    return undefined; // it is being restarted, frozen, or cut off
  }
}

/**
 * The commit that the page of a server says that all hold, by the page's own function over what it is sent; undefined: it does not say
 * "yes", or nothing.
 */
export async function pageShows(serverUrl: string, failures: string[]): Promise<string | undefined> {
  const data = await firstSnapshot(serverUrl);
  if (data === undefined) return undefined;
  const snapshot = fleetSnapshot.safeParse(JSON.parse(data));
  if (!snapshot.success) {
    failures.push(`the page of ${serverUrl} cannot read what it is sent: ${snapshot.error.message}`);
    return undefined;
  }
  const { summary, source, at } = snapshot.data;
  const { kind } = answerOf({ summary, source, pastAt: null, now: at });
  return kind === 'yes' ? (summary.policy.head ?? undefined) : undefined;
}

/** The data of the first event, where that is the snapshot. */
async function firstSnapshot(serverUrl: string): Promise<string | undefined> {
  // Not `fetch`: it may connect anew without a request, and a server that stops waits for that.
  const asked = httpRequest(`${serverUrl}/ui/events`, { agent: false, signal: AbortSignal.timeout(2000) }).end();
  asked.on('error', () => undefined); // also after what is needed has come
  try {
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) {
      text += String(chunk);
      const whole = text.split('\n').slice(0, -1);
      const data = whole.find((line) => line.startsWith('data: '));
      if (data !== undefined) return whole.includes('event: snapshot') ? data.slice('data: '.length) : undefined;
    }
    return undefined;
  } catch {
    return undefined; // it is being restarted, frozen, or cut off
  } finally {
    asked.destroy();
  }
}

interface CutOffInstance {
  readonly clients: readonly Client[];
  readonly server: string;
  readonly time: Timeline;
  readonly failures: string[];
}

/** A client of an instance that lost the backbone long ago knows since when, unless it has left it. */
export async function judgeCutOff({ clients, server, time, failures }: CutOffInstance): Promise<void> {
  for (const { program, apiUrl, cable, life } of clients) {
    const before = life();
    const isThere = (): boolean => cable.target === server && cable.isWhole && program.isUp && life() === before;
    if (!isThere()) continue;
    const health = await request(`${apiUrl}/healthy`, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
    const said = field(health?.json, 'server');
    // One that is being restarted, or is frozen, says nothing; one that is not connected does not claim to be current.
    if (said === undefined || field(said, 'connected') !== true || !isThere()) continue;
    if (typeof field(said, 'cut_off_since') === 'string') continue;
    const text = `${program.name} does not say that its server is cut off: ${JSON.stringify(said)}`;
    time.say(`FAILURE ${text}`);
    failures.push(`at ${(time.now() / 1000).toFixed(3)}: ${text}`);
  }
}
