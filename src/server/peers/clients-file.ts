import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { failureFields } from '../../lib/errors.js';
import { parseJson } from '../../lib/json/json.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, sleep, startTimer, Wakeup } from '../../lib/run/async.js';
import { appendSynced, makeFolder, readIfPresent, replaceFile } from '../../lib/settings/private-files.js';
import { clientsFromText, packJson, printClients, unpackJson } from '../clients/client-text.js';
import type { KnownClient } from '../clients/known-client.js';
import type { ClientRegistry } from '../clients/registry.js';
import type { StateFiles } from '../clients/state-files.js';

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

interface ClientsFileOptions {
  readonly stateDir: string;
  readonly instance: string;
  /** SYNC_CLIENT_AWAY_TTL. */
  readonly memoryMs: number;
  /** How long a client waits to be stored. Default 2 s. */
  readonly patienceMs?: number;
}

interface ClientsFileDeps {
  readonly registry: Pick<ClientRegistry, 'list' | 'watch'>;
  /** The log that the positions of clients are of. */
  readonly updates: { readonly epoch: string; readonly head: number };
  readonly files: StateFiles;
  readonly log: Logger;
}

const FILE = 'clients.jsonl';
/** Changes within this time are written together. */
const GATHER_MS = 1000;
/** What clients hold is written this often, and twice within the time that they stay listed. */
const REPEAT_MS = 60_000;
/** Writing takes at most this part of the time. */
const SHARE = 0.05;
/** With more arrivals than this the file is written anew. */
const MAX_APPENDED_BYTES = 1024 * 1024;
const PATIENCE_MS = 2000;
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
    // Behind the last end of a line a crash has cut off an arrival: that client was not served.
    const [first = '', ...lines] = text.slice(0, text.lastIndexOf('\n')).split('\n');
    const { instance, atMs, epoch, seen } = header.parse(parseJson(first));
    const clients = new Map<string, KnownClient>();
    for (const line of lines)
      for (const client of clientsFromText(await unpackJson(line))) clients.set(client.key, client);
    return { instance, atMs, epoch, seen, clients: [...clients.values()] };
  } catch (error) {
    const text = 'cannot read which clients were here before the start: only those that come back are listed';
    log.warn({ path, ...failureFields(error) }, text);
    return undefined;
  }
}

/**
 * Keeps the file of the clients with a session, for a restart: all of them from time to time, and
 * who arrives before it is served, so that a start after a crash expects everyone who was. Logs
 * failures and continues.
 */
export class ClientsFile {
  readonly #path: string;
  readonly #options: ClientsFileOptions;
  readonly #deps: ClientsFileDeps;
  readonly #urgent = new Wakeup();
  /** Arrivals that no registry lists yet. */
  readonly #entering = new Set<KnownClient>();
  /** Arrivals that are not in the file yet. */
  readonly #unwritten: KnownClient[] = [];
  /** Arrivals since the clients were listed that are about to replace the file. */
  #sinceListed: KnownClient[] | undefined;
  #append: Promise<void> | undefined;
  /** The end of all that was to be done with the file: one thing at a time. */
  #turn: Promise<void> = Promise.resolve();
  /** The file is of this start, and has all who were served since. */
  #isComplete = false;
  #appendedBytes = 0;
  #isNew = false;

  constructor(options: ClientsFileOptions, deps: ClientsFileDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#path = join(options.stateDir, FILE);
  }

  /**
   * Calls `enter`, which lists the client, once it is in the file, or cannot be: then there is no
   * file, and the next start does not know who was here. `client`: as it will be.
   */
  async arrives<T>(client: KnownClient, enter: () => T): Promise<T> {
    this.#entering.add(client);
    this.#sinceListed?.push(client);
    this.#unwritten.push(client);
    this.#append ??= this.#inTurn(async () => {
      this.#append = undefined;
      await this.#writeArrivals(this.#unwritten.splice(0));
    });
    await this.#written(this.#append);
    try {
      return enter();
    } finally {
      this.#entering.delete(client);
      this.#isNew = true;
    }
  }

  /** Waits for a write, but no longer than a client may wait: a disk may hang for ever. */
  #written(append: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const stopTimer = startTimer(this.#options.patienceMs ?? PATIENCE_MS, () => {
        this.#failed(new Error('the disk has not taken it for a while'));
        resolve();
      });
      void append.then(() => {
        stopTimer();
        resolve();
      });
    });
  }

  /** Writes what changes until the signal aborts, and everything then. */
  async run(signal: AbortSignal): Promise<void> {
    const { registry } = this.#deps;
    const repeatMs = Math.max(GATHER_MS, Math.min(REPEAT_MS, this.#options.memoryMs / 2));
    const unwatch = registry.watch((client, before) => {
      this.#isNew = true;
      if (isUrgent(client, before)) this.#urgent.set();
    });
    try {
      for (;;) {
        await this.#urgent.wait(signal, repeatMs);
        await sleep(GATHER_MS, signal);
        const begunMs = performance.now();
        await this.#writeAll();
        await sleep((performance.now() - begunMs) / SHARE, signal);
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      unwatch();
    }
    await this.#writeAll();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work);
    return this.#turn;
  }

  async #writeArrivals(arrivals: readonly KnownClient[]): Promise<void> {
    try {
      if (this.#isComplete) {
        const text = asText(await clientLines(arrivals));
        await appendSynced(this.#path, text);
        this.#appendedBytes += text.length;
        if (this.#appendedBytes > MAX_APPENDED_BYTES) this.#urgent.set();
      } else await this.#replace(await this.#allLines(), arrivals);
      this.#deps.files.wrote(FILE);
    } catch (error) {
      this.#failed(error);
      this.#isComplete = false;
      // Without it the next start knows that it does not know. It may be as it was for whoever may
      // not write here.
      await rm(this.#path, { force: true }).catch(this.#failed);
    }
  }

  async #writeAll(): Promise<void> {
    try {
      if (!this.#isNew && !this.#listed().some(({ awaySinceMs }) => awaySinceMs === null)) return;
      this.#isNew = false;
      const since: KnownClient[] = [...this.#entering];
      this.#sinceListed = since;
      const lines = await this.#allLines();
      await this.#inTurn(async () => {
        this.#sinceListed = undefined;
        await this.#replace(lines, since).catch(this.#failed);
      });
    } catch (error) {
      this.#sinceListed = undefined;
      this.#failed(error);
    }
  }

  async #replace(lines: readonly string[], since: readonly KnownClient[]): Promise<void> {
    await makeFolder(this.#options.stateDir); // with a backbone nobody else may need it
    await replaceFile(this.#path, asText([...lines, ...(await clientLines(since))]));
    this.#isComplete = true;
    this.#appendedBytes = 0;
    this.#deps.files.wrote(FILE);
  }

  async #allLines(): Promise<string[]> {
    const { updates } = this.#deps;
    const { instance } = this.#options;
    const about = { version: 1, instance, atMs: Date.now(), epoch: updates.epoch, seen: updates.head } as const;
    return [JSON.stringify(about satisfies z.infer<typeof header>), ...(await clientLines(this.#listed()))];
  }

  #listed(): KnownClient[] {
    return this.#deps.registry.list().filter(({ twin }) => twin === undefined);
  }

  readonly #failed = (error: unknown): void => {
    this.#isNew = true;
    const text = 'cannot store which clients are here: after a restart those that do not come back are not listed';
    const isNews = this.#deps.files.failed(FILE, error);
    if (isNews) this.#deps.log.warn({ path: this.#path, ...failureFields(error) }, text);
  };
}

async function clientLines(clients: readonly KnownClient[]): Promise<string[]> {
  const lines: string[] = [];
  for (let from = 0; from < clients.length; from += AT_ONCE)
    lines.push(await packJson(printClients(clients.slice(from, from + AT_ONCE))));
  return lines;
}

function asText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** A change of who is here; of what they hold the next repetition tells. */
function isUrgent(client: KnownClient, before: KnownClient | undefined): boolean {
  return (
    before === undefined ||
    client.awaySinceMs !== before.awaySinceMs ||
    client.labels !== before.labels ||
    client.topics !== before.topics
  );
}
