import type { FetchRequest, FetchResult } from '../../src/client/fetch/provider.js';
import type { SessionStart } from '../../src/client/reconcile/server-said.js';
import { SyncError } from '../../src/lib/errors.js';
import { Fold } from '../../src/server/log/fold.js';
import type { PlacedBase } from '../../src/server/log/place.js';
import type { PolicyBundle } from '../../src/wire/bundle.js';
import { parseKeepingUpdates, type UpdatesPage, type UpdatesQuery, updatesPage } from '../../src/wire/catch-up-page.js';
import {
  type PeerDataConfig,
  type PeerEntry,
  type PeerUpdate,
  peerDataConfig,
  peerUpdate,
} from '../../src/wire/data.js';
import { parseKeepingData } from '../../src/wire/inline-data.js';
import { bodyOfText } from '../../src/wire/json-node.js';
import type { Gates } from './story-gates.js';

interface Logged {
  readonly seq: number;
  readonly topics: readonly string[];
  readonly entries: readonly PeerEntry[];
  /** Seq before it on each of its topics. */
  readonly prev: Readonly<Record<string, number>>;
}

/** A source that was asked, and waits for the story. */
interface Ask {
  readonly name: string;
  readonly answer: (result: FetchResult) => void;
  readonly fail: (error: Error) => void;
}

/** A notice of an update, with its text. */
export interface Notice {
  readonly update: PeerUpdate;
  readonly text: string;
}

/** Files of a commit by path. */
type Files = ReadonlyMap<string, string>;

/**
 * Server, policy repository and data sources as one client sees them: a log with the server's own fold, which loses and forgets what
 * a story says, and sources that answer when the story does.
 */
export class StoryServer {
  readonly #gates: Gates;
  readonly #tell: (line: string) => void;
  epoch = 'one';
  /** Positions before this have no tail: they are answered by the fold. */
  tailFrom = 0;
  pageLimit = 1000;
  #log: Logged[] = [];
  #base: PlacedBase[] = [];
  #head = 0;
  #commit: { readonly hash: string; readonly files: Files } = { hash: 'c0', files: new Map() };
  readonly #asked: Ask[] = [];

  constructor(gates: Gates, tell: (line: string) => void) {
    this.#gates = gates;
    this.#tell = tell;
  }

  /** Appends an update; answers its notice. `lines`: `PUT /path <json>`, `PUT /path from <source> every <seconds>`, `DELETE /path`. */
  publish(lines: readonly string[], topics: readonly string[]): Notice {
    const seq = ++this.#head;
    const record = { seq, topics, entries: lines.map((line) => entryOf(line, topics)), prev: this.#heads(topics) };
    this.#log.push(record);
    const { entries, prev } = record;
    const text = JSON.stringify({ id: `u${seq}`, seq, epoch: this.epoch, prev, entries: entries.map(plain) });
    return { update: peerUpdate.parse(parseKeepingData(text)), text };
  }

  /** A notice as a server without a log has it. */
  opalNotice(id: string, lines: readonly string[], topics: readonly string[]): Notice {
    const text = JSON.stringify({ id, entries: lines.map((line) => plain(entryOf(line, topics))) });
    return { update: peerUpdate.parse(parseKeepingData(text)), text };
  }

  /** The configured entries from now on; those that are known keep their places. */
  setBase(lines: readonly string[], topics: readonly string[]): void {
    this.#base = lines.map((line) => {
      const entry = entryOf(line, topics);
      const text = JSON.stringify(plain(entry));
      const known = this.#base.find((each) => JSON.stringify(plain(each.entry)) === text);
      return known ?? { place: [++this.#head, 0], entry };
    });
  }

  /** The log is another one, or goes back. */
  forget(after: number): void {
    this.#log = this.#log.filter(({ seq }) => seq <= after);
    this.#base = this.#base.filter(({ place: [seq] }) => seq <= after);
    this.#head = after;
  }

  commit(hash: string, files: Files): void {
    this.#commit = { hash, files };
  }

  get hash(): string {
    return this.#commit.hash;
  }

  heads(topics: readonly string[]): { epoch: string; heads: Readonly<Record<string, number>> } {
    return { epoch: this.epoch, heads: this.#heads(topics) };
  }

  /** What a client with this position is told when it subscribes. */
  start(topics: readonly string[], position: { epoch: string; applied_through: number } | undefined): SessionStart {
    const isSame = position?.epoch === this.epoch;
    return {
      epoch: this.epoch,
      head: this.#head,
      resumes: isSame && position.applied_through <= this.#head,
      heads: this.#heads(topics),
      spreadMs: 0,
    };
  }

  readonly fetchBase = async (signal: AbortSignal): Promise<PeerDataConfig> => {
    await this.#asks('base', 'base entries', signal);
    return this.#config((origin) => origin === 'base');
  };

  /** All at once, as an OPAL server has it: no log, no places. */
  readonly fetchOpal = async (signal: AbortSignal): Promise<PeerDataConfig> => {
    await this.#asks('base', 'the data configuration', signal);
    return peerDataConfig.parse(
      parseKeepingData(JSON.stringify({ entries: this.#base.map(({ entry }) => plain(entry)) })),
    );
  };

  readonly fetchUpdates = async (query: UpdatesQuery, signal: AbortSignal): Promise<UpdatesPage> => {
    await this.#asks('updates', `updates after ${query.after} of ${query.epoch ?? 'any log'}`, signal);
    const isKnown = query.epoch === this.epoch && query.after <= this.#head;
    const goesOn = isKnown && query.from === 'fold';
    const isTail = isKnown && !goesOn && query.after >= this.tailFrom;
    const from = isTail || goesOn ? query.after : 0;
    const all = isTail ? this.#log : this.#folded();
    const rest = all.filter(({ seq, topics }) => seq > from && topics.some((topic) => query.topics.includes(topic)));
    const updates = rest
      .slice(0, this.pageLimit)
      .map(({ seq, prev, entries }) => ({ id: `u${seq}`, seq, prev, entries: entries.map(plain) }));
    const page = {
      ...{ epoch: this.epoch, head: this.#head, from: isTail ? 'tail' : 'fold' },
      ...{ more: rest.length > updates.length, heads: this.#heads(query.topics), updates },
    };
    this.#tell(`is told ${updates.map(({ seq }) => seq).join(', ') || 'none'} by ${page.from}`);
    return updatesPage.parse(parseKeepingUpdates(JSON.stringify(page)));
  };

  /** Whether it has a policy source. */
  hasSource = true;

  readonly fetchBundle = async (base: string | undefined, signal: AbortSignal): Promise<PolicyBundle> => {
    await this.#asks('policy', base === undefined ? 'the policy' : `the policy after ${base}`, signal);
    if (!this.hasSource) throw new SyncError('policy_source_none', 'no policy source', { retryable: true });
    const { hash, files } = this.#commit;
    const all = [...files];
    const isData = (path: string): boolean => path.endsWith('data.json');
    return {
      ...{ manifest: [...files.keys()], hash, old_hash: null, deleted_files: null },
      data_modules: all
        .filter(([path]) => isData(path))
        .map(([path, data]) => ({ path: path.replace(/\/?data\.json$/, '') || '.', data })),
      policy_modules: all.filter(([path]) => !isData(path)).map(([path, rego]) => ({ path, package_name: null, rego })),
    };
  };

  /** Reads of sources wait for {@link answer} or {@link fail}. */
  readonly fetch = ({ url }: FetchRequest, signal: AbortSignal): Promise<FetchResult> => {
    const name = url.replace(/^http:\/\/|\/$/g, '');
    this.#tell(`asks ${name}`);
    return new Promise((resolve, reject) => {
      const ask = { name, answer: resolve, fail: reject };
      this.#asked.push(ask);
      signal.addEventListener('abort', () => {
        const at = this.#asked.indexOf(ask);
        if (at < 0) return;
        this.#asked.splice(at, 1);
        this.#tell(`asks ${name} no more`);
        reject(signal.reason);
      });
    });
  };

  /** The oldest question to a source is answered: with a document, or with the word that it has not changed. */
  answer(name: string, text: string | 'unchanged'): void {
    const ask = this.#take(name);
    if (text === 'unchanged') ask.answer({ outcome: 'unchanged' });
    else ask.answer({ outcome: 'body', body: bodyOfText(text), etag: text });
  }

  fail(name: string, message: string): void {
    this.#take(name).fail(new SyncError('fetch_failed', message, { retryable: true }));
  }

  #take(name: string): Ask {
    const at = this.#asked.findIndex((ask) => ask.name === name);
    const [ask] = at < 0 ? [] : this.#asked.splice(at, 1);
    if (ask === undefined) throw new Error(`nobody asks ${name}`);
    return ask;
  }

  async #asks(gate: string, what: string, signal: AbortSignal): Promise<void> {
    this.#tell(`asks for ${what}`);
    await this.#gates.pass(gate);
    signal.throwIfAborted();
  }

  #fold(): Fold {
    const fold = new Fold();
    fold.setBase(this.#base);
    for (const record of this.#log) fold.applyRecord(record);
    return fold;
  }

  #config(isWanted: (origin: 'base' | 'update') => boolean): PeerDataConfig {
    const entries = this.#fold()
      .entries()
      .filter(({ origin }) => isWanted(origin))
      .map(({ seq, entry, origin }) => ({ ...plain(entry), seq, origin }));
    const config = { entries, epoch: this.epoch, head: this.#head, base_set: true };
    return peerDataConfig.parse(parseKeepingData(JSON.stringify(config)));
  }

  #folded(): Logged[] {
    const bySeq = new Map<number, PeerEntry[]>();
    for (const { seq, entry, origin } of this.#fold().entries()) {
      if (origin === 'update') bySeq.set(seq, [...(bySeq.get(seq) ?? []), entry]);
    }
    return [...bySeq]
      .sort(([a], [b]) => a - b)
      .map(([seq, entries]) => ({ seq, entries, prev: {}, topics: entries.flatMap(({ topics }) => topics) }));
  }

  #heads(topics: readonly string[]): Record<string, number> {
    const last = (topic: string): number => this.#log.findLast((record) => record.topics.includes(topic))?.seq ?? 0;
    return Object.fromEntries(topics.map((topic) => [topic, last(topic)]));
  }
}

function entryOf(line: string, topics: readonly string[]): PeerEntry {
  const [, method, path, , source, seconds, data] =
    /^(PUT|PATCH|DELETE) (\S+)( (?:from (\S+)(?: every (\d+))?|(.+)))?$/.exec(line) ?? [];
  const fields = {
    url: source === undefined ? '' : `http://${source}/`,
    ...{ topics: [...topics], dst_path: path, save_method: method },
    ...(data === undefined ? {} : { data: JSON.parse(data) as unknown }),
    ...(seconds === undefined ? {} : { periodic_update_interval: Number(seconds) }),
  };
  const [entry] = peerUpdate.parse(parseKeepingData(JSON.stringify({ entries: [fields] }))).entries;
  if (entry === undefined || method === undefined) throw new Error(`no entry: ${line}`);
  return entry;
}

/** An entry as JSON has it. */
function plain({ data, ...entry }: PeerEntry): object {
  return (data ?? null) === null ? entry : { ...entry, data: JSON.parse(data?.text ?? 'null') as unknown };
}
