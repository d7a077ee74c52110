import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { isAbort, sleep, Wakeup } from '../../lib/async.js';
import { failureFields } from '../../lib/errors.js';
import { parseJson } from '../../lib/json.js';
import type { Logger } from '../../lib/log.js';
import { readIfPresent, replaceFile } from '../../lib/private-files.js';
import type { KnownClient } from './known-client.js';
import { printView, readView } from './presence-text.js';
import type { StateFiles } from './state-files.js';

/** What a server knew of its clients when it last stored them. */
export interface StoredClients {
  /** The server instance that stored them. */
  readonly instance: string;
  /** In milliseconds since 1970. */
  readonly atMs: number;
  /** The log that their positions and spans are of. */
  readonly epoch: string;
  /** Last seq of the log that the server had seen. */
  readonly seen: number;
  readonly clients: readonly KnownClient[];
}

/** Where the clients come from. */
export interface ClientsFileDeps {
  /** The clients of this instance that have a session, or had one. */
  readonly clients: () => readonly KnownClient[];
  /** Calls after each change of a client. Returns the unsubscribe function. */
  readonly watch: (onChange: (client: KnownClient, before: KnownClient | undefined) => void) => () => void;
  readonly epoch: () => string;
  readonly head: () => number;
  readonly files: StateFiles;
  readonly log: Logger;
}

const FILE = 'clients.jsonl';
/** Changes within this time are written together. */
const GATHER_MS = 1000;
/** What clients hold, and that they are there, is written this often, and twice in the time that they stay listed. */
const REPEAT_MS = 60_000;
/** Writing takes at most this part of the time. */
const SHARE = 0.05;
/** Clients of one line: a slice of work. */
const AT_ONCE = 100;

const header = z.object({
  version: z.literal(1),
  instance: z.string(),
  atMs: z.number(),
  epoch: z.string(),
  seen: z.number(),
});

/** Reads what was stored; undefined: nothing, or nothing that can be read, which it logs. */
export async function readClients(stateDir: string, log: Logger): Promise<StoredClients | undefined> {
  const path = join(stateDir, FILE);
  try {
    const text = await readIfPresent(path);
    if (text === undefined) return undefined;
    const [first = '', ...lines] = text.trimEnd().split('\n');
    const { instance, atMs, epoch, seen } = header.parse(parseJson(first));
    const clients: KnownClient[] = [];
    for (const line of lines) clients.push(...(await readView(line)).clients);
    return { instance, atMs, epoch, seen, clients };
  } catch (error) {
    const text = 'cannot read which clients were here before the start: only those that come back are listed';
    log.warn({ path, ...failureFields(error) }, text);
    return undefined;
  }
}

/** Stores the clients with a session, so that they are known after a restart. Logs failures and continues. */
export function storeClients(
  { stateDir, instance, memoryMs }: { stateDir: string; instance: string; memoryMs: number },
  { clients, watch, epoch, head, files, log }: ClientsFileDeps,
): { close(): Promise<void> } {
  const path = join(stateDir, FILE);
  const repeatMs = Math.max(GATHER_MS, Math.min(REPEAT_MS, memoryMs / 2));
  const ending = new AbortController();
  const urgent = new Wakeup();
  let isNew = false;
  const unwatch = watch((client, before) => {
    isNew = true;
    if (isUrgent(client, before)) urgent.set();
  });

  async function write(): Promise<void> {
    try {
      const all = clients().filter(({ twin }) => twin === undefined);
      if (!isNew && !all.some(({ awaySinceMs }) => awaySinceMs === null)) return;
      isNew = false;
      const about = { instance, atMs: Date.now(), seen: head() };
      const lines = [JSON.stringify({ version: 1, epoch: epoch(), ...about } satisfies z.infer<typeof header>)];
      for (let from = 0; from < all.length; from += AT_ONCE) {
        const part = { ...about, clients: all.slice(from, from + AT_ONCE), leftOut: 0 };
        lines.push(await printView(part, Number.POSITIVE_INFINITY));
      }
      await mkdir(stateDir, { recursive: true, mode: 0o700 }); // with a backbone nobody else may need it
      await replaceFile(path, `${lines.join('\n')}\n`);
      files.wrote(FILE);
    } catch (error) {
      isNew = true;
      const text = 'cannot store which clients are here: after a restart those that do not come back are not listed';
      if (files.failed(FILE, error)) log.warn({ path, ...failureFields(error) }, text);
    }
  }

  async function writeUntilEnd(): Promise<void> {
    const { signal } = ending;
    try {
      for (;;) {
        await urgent.wait(signal, repeatMs);
        await sleep(GATHER_MS, signal);
        const begunMs = performance.now();
        await write();
        await sleep((performance.now() - begunMs) / SHARE, signal);
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
    await write();
  }
  const done = writeUntilEnd();

  return {
    close: async () => {
      ending.abort();
      await done;
      unwatch();
    },
  };
}

/** Whether a change is of who is here, not of what they hold: that comes with the next repetition. */
function isUrgent(client: KnownClient, before: KnownClient | undefined): boolean {
  return (
    before === undefined ||
    client.awaySinceMs !== before.awaySinceMs ||
    client.labels !== before.labels ||
    client.topics !== before.topics
  );
}
