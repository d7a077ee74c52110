import { Applier } from '../../src/client/reconcile/applier.js';
import { DataUpdater } from '../../src/client/reconcile/data-updater.js';
import { EngineKeeper } from '../../src/client/reconcile/engine-keeper.js';
import { PolicyUpdater } from '../../src/client/reconcile/policy-updater.js';
import { DataEvents } from '../../src/client/status/data-events.js';
import { Status } from '../../src/client/status/status.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { docPathText } from '../../src/wire/doc-path.js';
import type { StoryStep } from './datadriven.js';
import { MemoryEngine } from './memory-engine.js';
import { type StoryClock, storyClock } from './story-clock.js';
import { Gates } from './story-gates.js';
import { type Notice, StoryServer } from './story-server.js';

/** Attempts that fail are repeated after half of this: see {@link storyClock}. */
const BACKOFF = { minMs: 1000, maxMs: 1000 };
/** Longer than stories let pass, but for those of it. */
const FIRST_WAIT_MS = 60_000;
const PROBE = { probeIntervalMs: 10_000, probeTimeoutMs: 1000 };

/** What `show` and each step say of the client, as lines. */
type Said = ReadonlyMap<string, string>;

/**
 * One client with the server, the sources and the engine that it has in a story: the parts that keep the engine current, over parts
 * in memory that do what the story says. Each step prints what the client asked and wrote until it rests, and what is
 * different then. The same steps print the same always: no real time, no chance.
 */
export class Story implements AsyncDisposable {
  readonly #clock: StoryClock = storyClock();
  readonly #gates = new Gates();
  readonly #server = new StoryServer(this.#gates, (line) => this.#lines.push(line));
  readonly #stop = new AbortController();
  readonly #topics: readonly string[];
  readonly #isOpal: boolean;
  readonly #takesPolicy: boolean;
  readonly #engine: MemoryEngine;
  readonly #applier: Applier;
  readonly #keeper: EngineKeeper;
  readonly #status: Status;
  readonly #data: DataUpdater;
  readonly #policy: PolicyUpdater;
  readonly #done: Promise<unknown>;
  readonly #notices = new Map<number, Notice>();
  #opalUpdates = 0;
  #isConnected = false;
  #lines: string[] = [];
  #said: Said = new Map();

  /** `engine=bundle|modules`, `server=ours|opal`, `topics=a,b`, `policy=on|off`. */
  constructor({ engine = 'bundle', server = 'ours', topics = 'policy_data', policy: mode = 'on' }: StoryStep['named']) {
    const takesPolicy = mode === 'on';
    this.#takesPolicy = takesPolicy;
    if (engine !== 'bundle' && engine !== 'modules') throw new Error(`no engine: ${engine}`);
    this.#topics = topics.split(',');
    this.#isOpal = server === 'opal';
    const [log, stop] = [silentLogger(), this.#stop.signal];
    this.#engine = new MemoryEngine(engine, {
      tell: (call) => this.#lines.push(`engine: ${call}`),
      turn: () => this.#gates.pass('engine'),
    });
    const applier = new Applier(this.#engine, {
      takesPolicy,
      onCleared: (paths) => this.#lines.push(`cleared: ${paths.map(docPathText).join(', ')}`),
    });
    const told = ({ id, success, error }: { id: string; success: boolean; error: string }): void => {
      this.#lines.push(success ? `done: ${id}` : `failed: ${id}: ${error}`);
    };
    const status = new Status({ policyEnabled: takesPolicy, dataEnabled: true }, told);
    const keeper = new EngineKeeper(
      { tellsStart: true, probeEnabled: true, ...PROBE, backoff: BACKOFF },
      { engine: this.#engine, held: applier.held, status, log },
    );
    const events = new DataEvents();
    events.subscribe(status.onData);
    const { exclusive } = keeper;
    const { fetch, fetchBase, fetchOpal, fetchUpdates, fetchBundle } = this.#server;
    const apart = this.#isOpal ? {} : { fetchBase, fetchUpdates };
    const data: DataUpdater = new DataUpdater(
      { topics: this.#topics, backoff: BACKOFF },
      { applier, exclusive, fetch, fetchConfig: fetchOpal, ...apart, events, log },
    );
    const onApplied = (): void => data.policyChanged();
    const policy = new PolicyUpdater(
      { backoff: BACKOFF, firstWaitMs: FIRST_WAIT_MS },
      { applier, exclusive, withDocuments: data.withDocuments, fetchBundle, onApplied, status, log },
    );
    [this.#applier, this.#status, this.#keeper, this.#data, this.#policy] = [applier, status, keeper, data, policy];
    const back = { onBack: () => [data, policy].forEach((each) => void each.engineBack()) };
    this.#done = Promise.all([keeper.run(back, stop), data.run(stop), ...(takesPolicy ? [policy.run(stop)] : [])]);
    keeper.started();
  }

  /** Takes a step; returns what it printed. */
  async take(step: StoryStep): Promise<readonly string[]> {
    await this.#take(step);
    await rest();
    this.#tellChanges();
    return this.#lines.splice(0);
  }

  async #take({ command, words, named, rest: text, input }: StoryStep): Promise<void> {
    const [first = ''] = words;
    const server = this.#server;
    switch (command) {
      case 'start':
        return;
      // The server: what it has from now on, and what it says.
      case 'base':
        server.setBase(input, this.#topics);
        return;
      case 'commit':
        server.commit(first, filesOf(input));
        if (this.#isConnected && !words.includes('lost')) this.#policy.notified(JSON.stringify(first));
        return;
      case 'source':
        server.hasSource = first !== 'none';
        return;
      case 'publish':
        this.#publish(input, named.topics?.split(',') ?? this.#topics.slice(0, 1), words);
        return;
      case 'deliver':
        this.#receive(this.#notices.get(Number(first)), named.topic);
        return;
      case 'log':
        if (named.epoch !== undefined) server.epoch = named.epoch;
        if (named.after !== undefined) server.forget(Number(named.after));
        if (named.tail !== undefined) server.tailFrom = named.tail === 'none' ? Number.MAX_SAFE_INTEGER : 0;
        if (named.page !== undefined) server.pageLimit = Number(named.page);
        return;
      case 'connect':
        this.#isConnected = true;
        this.#data.connected(this.#isOpal ? undefined : server.start(this.#topics, this.#data.logPosition));
        if (this.#takesPolicy) this.#policy.request();
        return;
      case 'disconnect':
        this.#isConnected = false;
        return;
      case 'heartbeat':
        this.#data.heartbeat(server.heads(this.#topics));
        if (this.#takesPolicy) this.#policy.headIs(server.hash);
        return;
      // Sources.
      case 'answer':
        server.answer(first, text.slice(first.length + 1));
        return;
      case 'fail':
        server.fail(first, text.slice(first.length + 1));
        return;
      // What waits, and time.
      case 'hold':
        this.#gates.hold(first);
        return;
      case 'release':
        this.#gates.release(first);
        return;
      case 'wait':
        await this.#clock.pass(Number(first.replace(/s$/, '')) * 1000, rest);
        return;
      case 'engine':
        if (first === 'has') this.#engine.has(words[1] ?? '', words.slice(2).join(' '));
        else this.#trouble(first);
        return;
      // What people do.
      case 'prune': {
        const pruned = this.#data.prune();
        await rest();
        this.#gates.releaseAll();
        for (const { path } of await pruned) this.#lines.push(`pruned: ${docPathText(path)}`);
        return;
      }
      case 'revalidate':
        this.#data.revalidate(true);
        return;
      case 'refetch':
        this.#policy.refetch();
        return;
      case 'applied':
        this.#lines.push(this.#data.applyStatus(Number(first)));
        return;
      default:
        throw new Error(`no command: ${command}`);
    }
  }

  #publish(entries: readonly string[], topics: readonly string[], how: readonly string[]): void {
    const notice = this.#isOpal
      ? this.#server.opalNotice(`u${++this.#opalUpdates}`, entries, topics)
      : this.#server.publish(entries, topics);
    const seq = notice.update.seq ?? this.#opalUpdates;
    this.#notices.set(seq, notice);
    if (this.#isConnected && !how.includes('lost') && !how.includes('late')) this.#receive(notice);
  }

  #receive(notice: Notice | undefined, topic?: string): void {
    if (notice === undefined) throw new Error('there is no such update');
    const { update, text } = notice;
    const own = update.entries.flatMap(({ topics }) => topics).find((name) => this.#topics.includes(name));
    if (topic !== undefined || own !== undefined) this.#data.receive(update, topic ?? own ?? '', text);
  }

  #trouble(what: string): void {
    switch (what) {
      case 'ends':
      case 'restarts':
        this.#engine.wipe();
        this.#keeper.ended('it ended');
        if (what === 'restarts') this.#keeper.started();
        return;
      case 'starts':
        this.#keeper.started();
        return;
      case 'forgets':
        this.#engine.wipe();
        return;
      case 'unreachable':
      case 'unanswered':
        this.#engine.fails(what);
        return;
      default:
        throw new Error(`no trouble: ${what}`);
    }
  }

  /** All that is said of the client now, as steps tell what is different of it. */
  get said(): Said {
    return this.#state();
  }

  #tellChanges(): void {
    const said = this.#state();
    for (const [what, text] of said) if (this.#said.get(what) !== text) this.#lines.push(`${what}${text}`);
    for (const what of this.#said.keys()) if (!said.has(what)) this.#lines.push(`${what}no more`);
    this.#said = said;
  }

  #state(): Said {
    const { transactions, failing, ready, healthy } = this.#status;
    const { last } = transactions.policy;
    const position = this.#data.logPosition;
    const open = position === undefined ? [] : [...position.unresolved];
    const beyond = position?.applied_beyond ?? [];
    const orphans = this.#data.orphans.map(({ path }) => docPathText(path)).sort();
    return new Map([
      ['holds: ', sorted(this.#engine.text)],
      ...(position === undefined
        ? []
        : ([
            [
              'position: ',
              [
                `${position.applied_through} of ${position.epoch}`,
                ...(beyond.length > 0 ? [`and ${beyond.join(', ')}`] : []),
                ...(open.length > 0 ? [`without ${open.join(', ')}`] : []),
              ].join(', '),
            ],
          ] as const)),
      ...(last === undefined || last.success ? [] : ([['policy refused: ', `${last.id}: ${last.error}`]] as const)),
      ...[...failing.values()].map(({ path, error }) => [`failing ${path}: `, error] as const),
      ...(this.#data.awaitingPolicy.length === 0
        ? []
        : ([
            [
              'awaits the policy: ',
              this.#data.awaitingPolicy
                .map(({ path }) => docPathText(path))
                .sort()
                .join(', '),
            ],
          ] as const)),
      ...[...this.#applier.held.blocked.values()].map(
        ({ layer }) => [`withheld ${docPathText(layer.path)}: `, `the one of ${layer.rank.seq}`] as const,
      ),
      ...(orphans.length === 0 ? [] : ([['orphans: ', orphans.join(', ')]] as const)),
      ['state: ', `${ready ? 'ready' : 'not ready'}, ${healthy ? 'healthy' : 'not healthy'}`],
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#gates.releaseAll();
    await rest();
    this.#clock[Symbol.dispose]();
    await this.#done;
  }
}

/** Everything that is under way comes to the point where it waits: for an answer, or for time to pass. */
async function rest(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** Files of a commit: a path and its text on each line; `; ` ends a line of Rego. */
function filesOf(lines: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    lines.map((line) => {
      const [path = ''] = line.split(' ', 1);
      const text = line.slice(path.length + 1);
      return [path, path.endsWith('.rego') ? text.replaceAll('; ', '\n') : text] as const;
    }),
  );
}

/** JSON with the members of each object in order, whatever came first. */
function sorted(text: string): string {
  const inOrder = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inOrder);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .sort()
        .map(([key, member]) => [key, inOrder(member)]),
    );
  };
  return JSON.stringify(inOrder(JSON.parse(text)));
}
