import * as z from 'zod';
import { type ChangeMemory, type ClientTimes, COMMIT_STAGES, type TraceMemory, UPDATE_STAGES } from './change-times.js';

/** What an instance tells the others of its memory: the newest changes, bounded. */

/** Most changes of each kind, and times of clients in all. */
const SHARED = { changes: 50, clients: 1000 };
/** The order of the times of a client in {@link clientTimes}. */
const TIMES = ['heard', 'fetched', 'applied', 'refused', 'appliedSeen', 'refusedSeen', 'replaced'] as const;

const clientTimes = z.tuple([z.number()], z.number().nullable());

const sharedChange = z.object({
  key: z.union([z.number(), z.string()]),
  stages: z.record(z.string(), z.number()),
  subscribers: z.number().optional(),
  id: z.string().optional(),
  /** Missing from older versions. */
  topics: z.array(z.string()).optional(),
  error: z.object({ message: z.string(), code: z.string().optional() }).optional(),
  isShort: z.boolean().optional(),
  /** The index of the client, and its times, relative to the first stage. */
  clients: z.array(clientTimes),
});
type SharedChange = z.infer<typeof sharedChange>;

/** Part of the announcement of an instance. */
export const sharedTimes = z.array(sharedChange);

/** What another instance remembers, by seq or hash. */
export type OtherMemory = ReadonlyMap<number | string, ChangeMemory<string>>;

/** Prints the newest changes. `indexOf`: the place of a client in the announcement; undefined: it is not in it. */
export function printTimes(
  { updates, commits }: TraceMemory,
  indexOf: (client: string) => number | undefined,
): SharedChange[] {
  let left = SHARED.clients;
  const print = (key: number | string, memory: ChangeMemory<string>): SharedChange => {
    const { stages, clients, subscribers, id, topics, error, isShort } = memory;
    const base = baseOf(stages);
    const known = [...clients].flatMap(([client, times]): [number, ClientTimes][] => {
      const index = indexOf(client);
      return index === undefined ? [] : [[index, times]];
    });
    const shown = known.slice(0, Math.max(0, left));
    left -= shown.length;
    const isCut = isShort === true || shown.length < clients.size;
    return {
      key,
      stages: Object.fromEntries(
        Object.entries(stages).flatMap(([name, at]) => (at === undefined ? [] : [[name, at]])),
      ),
      ...(subscribers !== undefined && { subscribers }),
      ...(id !== undefined && { id }),
      ...(topics !== undefined && { topics: [...topics] }),
      ...(error !== undefined && {
        error: { message: error.message.slice(0, 500), ...(error.code !== undefined && { code: error.code }) },
      }),
      ...(isCut && { isShort: true }),
      clients: shown.map(([index, times]) => {
        const row = TIMES.map((name) => (times[name] === undefined ? null : Math.round(times[name] - base)));
        return [index, ...row];
      }),
    };
  };
  return [
    ...commits
      .newest()
      .slice(0, SHARED.changes)
      .map(([key, memory]) => print(key, memory)),
    ...updates
      .newest()
      .slice(0, SHARED.changes)
      .map(([key, memory]) => print(key, memory)),
  ];
}

/** Reads what {@link printTimes} wrote. */
export function readTimes(
  changes: readonly SharedChange[],
  clientAt: (index: number) => string | undefined,
): OtherMemory {
  const known = new Set<string>([...UPDATE_STAGES, ...COMMIT_STAGES]);
  return new Map(
    changes.map(({ key, stages, error, clients, ...more }) => {
      const base = baseOf(stages);
      const times = clients.flatMap(([index, ...row]): [string, ClientTimes][] => {
        const client = clientAt(index);
        if (client === undefined) return [];
        const named = TIMES.flatMap((name, at) => (row[at] == null ? [] : [[name, base + row[at]] as const]));
        return [[client, Object.fromEntries(named)]];
      });
      const memory: ChangeMemory<string> = {
        ...more,
        stages: Object.fromEntries(Object.entries(stages).filter(([name]) => known.has(name))),
        ...(error !== undefined && { error: { message: error.message, code: error.code } }),
        clients: new Map(times),
      };
      return [key, memory];
    }),
  );
}

function baseOf(stages: Readonly<Record<string, number | undefined>>): number {
  const times = Object.values(stages).filter((at) => at !== undefined);
  return times.length === 0 ? 0 : Math.min(...times);
}
