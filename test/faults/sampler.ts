import { sleep } from '../../src/lib/run/async.js';
import { request } from '../support/http.js';
import { isObject, type Json, marks } from './model.js';

/** Where a client was by its own word or a server's, just before its engine was asked. */
export interface SaidPosition {
  readonly epoch: string;
  readonly through: number;
  readonly unresolved: readonly number[];
}

/** What an engine held at one moment, as the difference to the sample before. */
export interface Sample {
  readonly atMs: number;
  /** Lives of the client and of the engine: what is compared is of one life. */
  readonly life: string;
  /** The client says of the engine that it holds all that the client knows (the marker document). */
  readonly isComplete: boolean;
  readonly position: SaidPosition | undefined;
  /** The commit that the page of a server said just before that everyone holds. */
  readonly saidCommit: number | undefined;
  /** Places whose entry is another one now: its number, undefined for none. */
  readonly changes: readonly (readonly [path: string, n: number | undefined])[];
  readonly commit: number | undefined;
}

/** What is sampled. */
export interface Sampled {
  readonly engineUrl: string;
  readonly apiUrl: string;
  /** Another text after each kill of the client or of its engine. */
  readonly life: () => string;
  /** What a server says of its position. */
  readonly positionShown: () => Promise<SaidPosition | undefined>;
  /** The commit that the page of a server says that everyone holds. */
  readonly commitShown: () => Promise<number | undefined>;
}

const PAUSE_MS = 80;
/** Before a sample: what the client says of its position, what a server says of it, what the page says of all, or nothing. */
const ASKED = ['client', 'server', 'nothing', 'client', 'server', 'page'] as const;
const QUERY = [
  't := [x | x = data.t]',
  'live := [x | x = data.live]',
  'probe := [x | x = data.probe]',
  'commit := [x | x = data.static.commit]',
  'marker := [x | x = data.system.policysync.marker]',
].join('; ');

/** Looks at one engine, again and again until the signal aborts; answers what was seen. */
export async function sampleEngine(sampled: Sampled, now: () => number, signal: AbortSignal): Promise<Sample[]> {
  const samples: Sample[] = [];
  let known = new Map<string, number>();
  let knownLife = '';
  for (let count = 0; !signal.aborted; count++) {
    try {
      const life = sampled.life();
      const asked = ASKED[count % ASKED.length];
      const position =
        asked === 'client'
          ? await positionOf(sampled.apiUrl)
          : asked === 'server'
            ? await sampled.positionShown()
            : undefined;
      const saidCommit = asked === 'page' ? await sampled.commitShown() : undefined;
      const answer = await request(`${sampled.engineUrl}/v1/query?q=${encodeURIComponent(QUERY)}`, {
        signal: AbortSignal.timeout(2000),
      });
      const held = bindings(answer.json);
      // One that was killed meanwhile may be empty, or somebody else by now.
      if (held !== undefined && sampled.life() === life) {
        if (life !== knownLife) known = new Map();
        knownLife = life;
        const found = marks({ t: held.t ?? {}, probe: held.probe ?? {} });
        if (isObject(held.live)) {
          for (const [key, live] of Object.entries(held.live)) {
            if (isObject(live) && typeof live.v === 'number') found.set(`/live/${key}`, live.v);
          }
        }
        const changes: (readonly [string, number | undefined])[] = [];
        for (const [path, n] of found) if (known.get(path) !== n) changes.push([path, n]);
        for (const path of known.keys()) if (!found.has(path)) changes.push([path, undefined]);
        known = found;
        const isComplete = isObject(held.marker) && held.marker.filling !== true;
        const commit = typeof held.commit === 'number' ? held.commit : undefined;
        samples.push({ atMs: now(), life, isComplete, position, saidCommit, changes, commit });
      }
    } catch {
      // It is being restarted, frozen, or cut off: there is nothing to see.
    }
    await sleep(PAUSE_MS, signal).catch(() => undefined); // aborted: the loop ends
  }
  return samples;
}

function bindings(answer: unknown): Record<'t' | 'live' | 'probe' | 'commit' | 'marker', Json | undefined> | undefined {
  const [row] = (answer as { result?: Record<string, Json[]>[] }).result ?? [];
  if (row === undefined) return undefined;
  const one = (name: string): Json | undefined => row[name]?.[0];
  return { t: one('t'), live: one('live'), probe: one('probe'), commit: one('commit'), marker: one('marker') };
}

/** GET /position of a client; undefined where it does not answer or has none. */
export async function positionOf(apiUrl: string): Promise<SaidPosition | undefined> {
  try {
    const answer = await request(`${apiUrl}/position`, { signal: AbortSignal.timeout(1000) });
    const said = answer.json as { epoch: string | null; applied_through: number; unresolved: number[] };
    if (answer.status !== 200 || said.epoch === null) return undefined;
    return { epoch: said.epoch, through: said.applied_through, unresolved: said.unresolved };
  } catch {
    return undefined; // documented above
  }
}
