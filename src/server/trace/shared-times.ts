import * as z from 'zod';
import { instant } from '../../wire/instant.js';
import { type ChangeMemory, type ClientTimes, COMMIT_STAGES, type TraceMemory, UPDATE_STAGES } from './change-times.js';

/** What an instance tells the others of its memory: the newest changes, bounded. */

/** Most changes of each kind. */
const CHANGES = 50;
/** Times of clients in all: at least so many, and those of so many changes that concern every client. */
const TIMES_OF = { least: 1000, changes: 4 };
/** The order of the times of a client in {@link clientTimes}. */
const TIMES = ['heard', 'fetched', 'applied', 'refused', 'appliedSeen', 'refusedSeen', 'replaced'] as const;

const clientTimes = z.tuple([z.number().int().nonnegative()], instant.nullable());

const sharedChange = z.object({
  key: z.union([z.number(), z.string()]),
  stages: z.record(z.string(), instant),
  subscribers: z.number().optional(),
  id: z.string().optional(),
  /** Missing from older versions. */
  topics: z.array(z.string()).optional(),
  error: z
    .object({
      ...{ message: z.string(), code: z.string().optional() },
      ...{ file: z.string().optional(), line: z.number().optional() },
    })
    .optional(),
  isShort: z.boolean().optional(),
  /** The index of the client, and its times, relative to the first stage. */
  clients: z.array(clientTimes),
});
type SharedChange = z.infer<typeof sharedChange>;

/** Part of the announcement of an instance. */
export const sharedTimes = z.array(sharedChange);

/** What another instance remembers, by seq or hash. */
export type OtherMemory = ReadonlyMap<number | string, ChangeMemory<string>>;

/** How many times of clients are told of, by the number of clients in the announcement. */
export function timesFor(clients: number): number {
  return Math.max(TIMES_OF.least, TIMES_OF.changes * clients);
}

/**
 * Prints the newest changes. `indexOf`: the place of a client in the announcement; undefined: it is not in it. `most`: times of clients in
 * all; the newest changes get theirs first, and each all or none: some alone say nothing of how fast a fleet was.
 */
export function printTimes(
  { updates, commits }: TraceMemory,
  { indexOf, most }: { readonly indexOf: (client: string) => number | undefined; readonly most: number },
): SharedChange[] {
  const newest: (readonly [number | string, ChangeMemory<string>])[] = [
    ...commits.newest().slice(0, CHANGES),
    ...updates.newest().slice(0, CHANGES),
  ];
  const timed = withTimes(
    newest.map(([, memory]) => memory),
    most,
  );
  const print = (key: number | string, memory: ChangeMemory<string>): SharedChange => {
    const { stages, clients, subscribers, id, topics, error, isShort } = memory;
    const base = baseOf(stages);
    const shown = [...(timed.has(memory) ? clients : [])].flatMap(([client, times]): [number, ClientTimes][] => {
      const index = indexOf(client);
      return index === undefined ? [] : [[index, times]];
    });
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
        error: {
          message: error.message.slice(0, 500),
          ...(error.code !== undefined && { code: error.code }),
          ...(error.file !== undefined && { file: error.file.slice(0, 500) }),
          ...(error.line !== undefined && { line: error.line }),
        },
      }),
      ...(isCut && { isShort: true }),
      clients: shown.map(([index, times]) => {
        const row = TIMES.map((name) => (times[name] === undefined ? null : Math.round(times[name] - base)));
        return [index, ...row];
      }),
    };
  };
  return newest.map(([key, memory]) => print(key, memory));
}

/** The changes whose times of clients fit, the newest first. */
function withTimes(memories: readonly ChangeMemory<string>[], most: number): ReadonlySet<ChangeMemory<string>> {
  const fitting = new Set<ChangeMemory<string>>();
  let left = most;
  for (const memory of [...memories].sort((one, other) => baseOf(other.stages) - baseOf(one.stages))) {
    if (memory.clients.size > left) continue;
    left -= memory.clients.size;
    fitting.add(memory);
  }
  return fitting;
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
        ...(error !== undefined && { error: { ...error, code: error.code } }),
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
