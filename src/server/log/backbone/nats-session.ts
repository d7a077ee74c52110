import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type {
  ConsumerMessages,
  JetStreamClient,
  JetStreamManager,
  JetStreamPublishOptions,
  PubAck,
  StoredMsg,
  StreamConfig,
  StreamInfo,
} from '@nats-io/jetstream';
import type { NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import { errorText, SyncError } from '../../../lib/errors.js';
import { type Durability, PAGE_CHARS } from '../log-store.js';
import { conflict, replaced, unavailable, unwritable } from './backbone-errors.js';
import { connectHiding } from './hidden-password.js';
import type { BackboneState, BackboneTimes, Session, SessionHooks } from './session-keeper.js';

/** Location of a log in NATS. */
export interface NatsPlace {
  /** All addresses of the setting; the first one has the credentials and the scheme. */
  readonly urls: readonly URL[];
  /** Without secrets, for messages. */
  readonly what: string;
  readonly names: NatsNames;
  readonly times: BackboneTimes;
  /** SYNC_BROADCAST_NATS_SYNC_ALWAYS: asserted by the operator, since no client can query it. */
  readonly syncAlways: boolean;
}

/** Streams of one log, and their subjects. */
export interface NatsNames {
  readonly log: string;
  readonly retired: string;
  readonly presence: string;
  readonly parts: string;
  /** Followed by the kind of the row. */
  readonly rowSubject: string;
  readonly retiredSubject: string;
  /** Followed by the instance. */
  readonly presenceSubject: string;
  /** Followed by the instance and a number. */
  readonly partsSubject: string;
  /** Of no stream. */
  readonly mailSubject: string;
}

export function natsNames(name: string): NatsNames {
  return {
    log: `${name}_log`,
    retired: `${name}_retired`,
    presence: `${name}_presence`,
    parts: `${name}_presence_parts`,
    rowSubject: `${name}.log.`,
    retiredSubject: `${name}.retired`,
    presenceSubject: `${name}.presence.`,
    partsSubject: `${name}.presence_parts.`,
    mailSubject: `${name}.mail`,
  };
}

/**
 * Streams beside that of the rows, by their names in {@link NatsNames}: of what is retired, of
 * presence, and of its parts.
 */
type Beside = 'retired' | 'presence' | 'parts';
const BESIDE: readonly Beside[] = ['retired', 'presence', 'parts'];
type MadeStream = Partial<StreamConfig> & { readonly name: string };

/**
 * How long NATS remembers a dedup text (design D27): it does so in memory, and counts none. A
 * stream that was made with a longer one keeps it.
 */
const WINDOW_MS = 60 * 60 * 1000;
const NANOS = 1_000_000;
const EPOCH = 'policysync-epoch';
const FORM = 'policysync-form';
const NATS_FORM = 1;
/** Error codes of the JetStream API. */
const CODE = { wrongLastSequence: 10_071, streamExists: 10_058, streamNotFound: 10_059, noMessage: 10_037 };
/** Error codes: insufficient memory or storage, stream full, message too large. */
const FULL = [10_023, 10_028, 10_047, 10_077, 10_054];
/** When presence of instances that did not come back is removed. */
const PRESENCE_AGE_MS = 24 * 60 * 60 * 1000;

export class NatsSession implements Session {
  readonly #place: NatsPlace;
  readonly #hooks: SessionHooks;
  readonly #connection: NatsConnection;
  readonly #stream: JetStreamClient;
  readonly #manager: JetStreamManager;
  readonly #configs: Readonly<Record<'log' | Beside, MadeStream>>;
  /** What listens for rows, and for mail, is there. */
  #followsRows = false;
  #followsMail = false;

  private constructor(
    place: NatsPlace,
    hooks: SessionHooks,
    { connection, stream, manager }: { connection: NatsConnection; stream: JetStreamClient; manager: JetStreamManager },
  ) {
    this.#place = place;
    this.#hooks = hooks;
    this.#connection = connection;
    this.#stream = stream;
    this.#manager = manager;
    this.#configs = streamConfigs(place.names);
  }

  static connect(place: NatsPlace, hooks: SessionHooks): Promise<NatsSession> {
    return connectHiding(place.urls, hooks, (own) => NatsSession.#connect(place, own));
  }

  static async #connect(place: NatsPlace, hooks: SessionHooks): Promise<NatsSession> {
    const { connect } = await import('@nats-io/transport-node');
    const { jetstream, jetstreamManager } = await import('@nats-io/jetstream');
    const connection = await connect(await connectionOptions(place));
    connection.closed().then(
      (error) => hooks.lost(error ?? new Error('the connection was closed')),
      (error: unknown) => hooks.lost(error),
    );
    try {
      const timeout = place.times.callMs;
      const manager = await jetstreamManager(connection, { timeout });
      const session = new NatsSession(place, hooks, {
        connection,
        manager,
        stream: jetstream(connection, { timeout }),
      });
      session.#followMail(); // none is kept for who comes later
      return session;
    } catch (error) {
      destroy(connection);
      throw error;
    }
  }

  /** Largest message that the server accepts. */
  get limitBytes(): number {
    return this.#connection.info?.max_payload ?? 1024 * 1024;
  }

  async publish(
    subject: string,
    body: Uint8Array | string,
    options: Partial<JetStreamPublishOptions>,
  ): Promise<PubAck> {
    return await this.#asking(() => this.#published(subject, body, options));
  }

  /** Publishes to a stream beside that of the rows. */
  publishBeside(stream: Beside, subject: string, body: Uint8Array | string): Promise<PubAck> {
    return this.#beside(stream, () => this.#published(subject, body, {}));
  }

  async headers(values: Readonly<Record<string, string>>): Promise<JetStreamPublishOptions['headers']> {
    const { headers } = await import('@nats-io/transport-node');
    const made = headers();
    for (const [name, value] of Object.entries(values)) made.set(name, value);
    return made;
  }

  /** State of the stream of rows. */
  info(): Promise<StreamInfo> {
    return this.#asking(() => this.#manager.streams.info(this.#place.names.log));
  }

  /** State of a stream beside that of the rows. */
  infoBeside(stream: Beside): Promise<StreamInfo> {
    return this.#beside(stream, () => this.#manager.streams.info(this.#place.names[stream]));
  }

  /** Rows from a position on: at most `count`, fewer if they are large, none at the end. */
  messages(from: number, count: number): Promise<StoredMsg[]> {
    return this.#asking(() => this.#messages(this.#place.names.log, from, count));
  }

  /** As {@link messages}, of a stream beside that of the rows. */
  messagesBeside(stream: Beside, from: number, count: number): Promise<StoredMsg[]> {
    return this.#beside(stream, () => this.#messages(this.#place.names[stream], from, count));
  }

  /** The last messages on these subjects of the parts of presence: of those that have one. */
  lastParts(subjects: string[]): Promise<StoredMsg[]> {
    return this.#beside('parts', async () => {
      const found: StoredMsg[] = [];
      try {
        const query = { multi_last: subjects };
        for await (const message of await this.#manager.direct.getLastMessagesFor(this.#place.names.parts, query))
          found.push(message);
      } catch (error) {
        if (!isNothing(error)) throw error;
      }
      return found;
    });
  }

  /** The subjects below one, of the parts of presence, on which there is a message. */
  partsBelow(subject: string): Promise<readonly string[]> {
    return this.#beside('parts', async () => {
      const query = { subjects_filter: `${subject}.*` };
      const { state } = await this.#manager.streams.info(this.#place.names.parts, query);
      return Object.keys(state.subjects ?? {});
    });
  }

  /** Removes what is on a subject of the parts of presence. */
  async dropParts(filter: string): Promise<void> {
    await this.#beside('parts', () => this.#manager.streams.purge(this.#place.names.parts, { filter }));
  }

  /** Sequence number of the last message on a subject; 0 if there is none. */
  async lastOf(subject: string): Promise<number> {
    return await this.#asking(async () => {
      const query = { last_by_subj: subject };
      const message = await this.#manager.streams.getMessage(this.#place.names.log, query).catch(nothingThere);
      return message?.seq ?? 0;
    });
  }

  /** Removes a message. Returns false if it does not exist any more. */
  async remove(stream: 'log' | 'retired', seq: number): Promise<boolean> {
    return await this.#asking(async () => {
      try {
        return await this.#manager.streams.deleteMessage(this.#place.names[stream], seq, false);
      } catch (error) {
        if (codeOf(error) === CODE.noMessage || /no message|not found/i.test(errorText(error))) return false;
        throw error;
      }
    });
  }

  async look(seq: number): Promise<BackboneState> {
    const { names } = this.#place;
    try {
      const { state, config, created, ts } = await this.#manager.streams.info(names.log);
      const row = seq === 0 ? null : await this.#manager.streams.getMessage(names.log, { seq }).catch(nothingThere);
      return {
        epoch: epochOf(created, config.metadata),
        head: state.last_seq,
        rowMs: row === null ? undefined : Math.floor(row.time.getTime()),
        nowMs: ts === undefined ? undefined : Date.parse(ts),
      };
    } catch (error) {
      if (codeOf(error) === CODE.streamNotFound) return { epoch: undefined, head: 0, rowMs: undefined };
      throw this.#failure(error);
    }
  }

  async renewEpoch(old: string): Promise<void> {
    const { log } = this.#place.names;
    const { config, created } = await this.info();
    if (epochOf(created, config.metadata) !== old) return;
    await this.#asking(() =>
      this.#manager.streams.update(log, { metadata: { ...config.metadata, [EPOCH]: randomUUID() } }),
    );
  }

  /**
   * Creates the stream of rows if there is none, and returns the epoch. Never changes one that is
   * there.
   */
  async prepare(): Promise<string> {
    const { names, what } = this.#place;
    if (!this.#connection.info?.version || isOlder(this.#connection.info.version, 2, 11)) {
      throw new SyncError(
        'config_invalid',
        `${what}: nats-server ${this.#connection.info?.version} is too old; 2.11 or later is needed`,
      );
    }
    await this.#asking(() => this.#make(this.#configs.log));
    const { config, created } = await this.info();
    const form = Number(config.metadata?.[FORM] ?? NATS_FORM);
    if (form > NATS_FORM) {
      throw new SyncError(
        'log_damaged',
        `${what}: a newer version wrote the update log (form ${form}, known ${NATS_FORM})`,
      );
    }
    const wrong = unfit(config);
    if (wrong !== undefined) throw new SyncError('config_invalid', `${what}: the stream ${names.log} ${wrong}`);
    return epochOf(created, config.metadata);
  }

  async mend(): Promise<void> {
    this.#followMail();
    const replicas = await this.#replicas();
    const parts = [this.#followRows(), ...BESIDE.map((stream) => this.#makeBeside(stream, replicas))];
    const failed = (await Promise.allSettled(parts)).find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw this.#failure(failed.reason); // none keeps the others from being made
  }

  async durability(): Promise<Durability> {
    const { storage } = (await this.info()).config;
    if (storage !== 'file') return { level: 'weak', reason: `NATS: the stream is kept in ${storage}` };
    if (this.#place.syncAlways) return { level: 'durable' };
    return {
      level: 'weak',
      reason:
        'NATS: sync_interval of the servers cannot be queried; set SYNC_BROADCAST_NATS_SYNC_ALWAYS if it is "always"',
    };
  }

  /**
   * Subscribes to new rows, if nothing does, and hints at those that came before. Where the
   * consumer fails and the log does not, the checks of the keeper find the rows, and what follows
   * the next one makes another consumer.
   */
  async #followRows(): Promise<void> {
    if (this.#followsRows) return;
    this.#followsRows = true;
    const { DeliverPolicy } = await import('@nats-io/jetstream');
    const options = { deliver_policy: DeliverPolicy.New, headers_only: true };
    const follow = async (): Promise<ConsumerMessages> => {
      const consumer = await this.#stream.consumers.get(this.#place.names.log, options);
      const { lookMs } = this.#place.times;
      return await consumer.consume({ expires: 2 * lookMs, idle_heartbeat: lookMs }); // how soon a deleted one is noticed
    };
    const ended = (): void => {
      this.#followsRows = false;
    };
    let messages: ConsumerMessages;
    try {
      messages = await follow();
    } catch (error) {
      ended();
      throw error;
    }
    this.#hooks.hint();
    const read = async (): Promise<void> => {
      for await (const { seq } of messages) this.#hooks.hint(seq);
    };
    read().then(ended, ended);
  }

  async mail(text: string): Promise<void> {
    this.#connection.publish(this.#place.names.mailSubject, text);
    await this.#connection.flush();
  }

  /** Subscribes to mail, if nothing does. A user who may not does without as long as that is so. */
  #followMail(): void {
    if (this.#followsMail) return;
    this.#followsMail = true;
    const mail = this.#connection.subscribe(this.#place.names.mailSubject);
    const read = async (): Promise<void> => {
      for await (const message of mail) this.#hooks.mail(message.string());
    };
    const ended = (): void => {
      this.#followsMail = false;
    };
    read().then(ended, ended);
  }

  end(): void {
    destroy(this.#connection);
  }

  /** Replicas of the stream of rows. */
  async #replicas(): Promise<number> {
    try {
      return (await this.#manager.streams.info(this.#place.names.log)).config.num_replicas;
    } catch (error) {
      if (codeOf(error) === CODE.streamNotFound) throw replaced(this.#place.what, 'the update log was deleted');
      throw this.#failure(error);
    }
  }

  #published(subject: string, body: Uint8Array | string, options: Partial<JetStreamPublishOptions>): Promise<PubAck> {
    return this.#stream.publish(subject, body, { timeout: this.#place.times.callMs, ...options });
  }

  async #messages(stream: string, from: number, count: number): Promise<StoredMsg[]> {
    const found: StoredMsg[] = [];
    for (let bytes = 0; found.length < count && bytes < PAGE_CHARS; ) {
      const seq = (found.at(-1)?.seq ?? from - 1) + 1;
      const before = found.length;
      const query = { seq, batch: count - before, max_bytes: PAGE_CHARS };
      try {
        for await (const message of await this.#manager.direct.getBatch(stream, query)) {
          found.push(message);
          bytes += message.data.length;
        }
      } catch (error) {
        if (!isNothing(error)) throw error;
      }
      // The server's byte limit may cut a batch short: only an empty one is the end.
      if (found.length === before) break;
    }
    return found;
  }

  /**
   * Works with a stream beside that of the rows; makes it again if it is gone. Rejects with a
   * `SyncError` if it is away alone.
   */
  async #beside<T>(stream: Beside, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isGone(error)) throw this.#failure(error);
    }
    const replicas = await this.#replicas();
    try {
      await this.#makeBeside(stream, replicas);
      return await work();
    } catch (error) {
      if (!isGone(error)) throw this.#failure(error);
      throw unavailable(
        this.#place.what,
        `the stream ${this.#place.names[stream]} cannot be used: ${errorText(error)}`,
        error,
      );
    }
  }

  /** Makes a stream beside that of the rows, or raises its replicas: it has as many as the log. */
  async #makeBeside(stream: Beside, replicas: number): Promise<void> {
    const config = this.#configs[stream];
    const found = await this.#make({ ...config, num_replicas: replicas });
    if (found !== undefined && found.num_replicas < replicas) {
      await this.#manager.streams.update(config.name, { num_replicas: replicas });
    }
  }

  /**
   * Makes a stream, unless it is there: then returns its configuration. Rejects as the client of
   * NATS does.
   */
  async #make(config: MadeStream): Promise<StreamConfig | undefined> {
    try {
      return (await this.#manager.streams.info(config.name)).config;
    } catch (error) {
      if (codeOf(error) !== CODE.streamNotFound) throw error;
    }
    try {
      await this.#manager.streams.add(config);
    } catch (error) {
      if (codeOf(error) !== CODE.streamExists) throw error; // another instance created it
    }
    return undefined;
  }

  async #asking<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /**
   * Maps an error response of JetStream to a `SyncError`. Returns all other errors unchanged: the
   * connection has failed.
   */
  #failure(error: unknown): unknown {
    const { what } = this.#place;
    const code = codeOf(error);
    if (error instanceof SyncError || code === undefined) return error;
    if (code === CODE.wrongLastSequence) return conflict(what);
    if (FULL.includes(code)) return unwritable(what, error);
    return unavailable(what, errorText(error), error);
  }
}

function streamConfigs(names: NatsNames): Readonly<Record<'log' | Beside, MadeStream>> {
  const file = { storage: 'file', allow_direct: true } as const;
  const metadata = { [FORM]: String(NATS_FORM) };
  const log = {
    ...file,
    name: names.log,
    subjects: [`${names.rowSubject}*`],
    duplicate_window: WINDOW_MS * NANOS,
    metadata,
  };
  const retired = { ...file, name: names.retired, subjects: [names.retiredSubject], duplicate_window: 0 };
  // In files: an instance that starts after a restart of NATS has to know of one that is cut off
  // from it.
  const last = { ...file, max_msgs_per_subject: 1, max_age: PRESENCE_AGE_MS * NANOS, duplicate_window: 0 };
  const presence = { ...last, name: names.presence, subjects: [`${names.presenceSubject}*`] };
  const parts = { ...last, name: names.parts, subjects: [`${names.partsSubject}*.*`] };
  return { log, retired, presence, parts } as Readonly<Record<'log' | Beside, MadeStream>>; // of its enums only the types can be imported
}

/** Whether there is no such stream: its API says so, or nobody takes what is sent to it. */
function isGone(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // The client of NATS has three ways to say that nobody responds: of a request, of a publication,
  // of a direct read.
  const isUnanswered = error.name === 'NoRespondersError' || error.name === 'JetStreamNotEnabled';
  const isStatus = error.name === 'JetStreamStatusError' && 'code' in error && error.code === 503;
  return codeOf(error) === CODE.streamNotFound || isUnanswered || isStatus || isGone(error.cause);
}

/**
 * A recreated stream has another creation time; {@link NatsSession.renewEpoch} marks one that lost
 * rows.
 */
function epochOf(created: string, metadata: Record<string, string> | undefined): string {
  return `${created}/${metadata?.[EPOCH] ?? ''}`.replaceAll(/[^0-9a-zA-Z]/g, '');
}

/** Why a stream with other settings could lose rows; undefined if it could not. */
function unfit(config: StreamConfig): string | undefined {
  if (config.retention !== 'limits') return `has retention ${config.retention}: it must be "limits"`;
  if (config.max_age > 0 || config.max_msgs > 0 || config.max_msgs_per_subject > 0)
    return 'drops messages by age or number';
  if (config.max_bytes > 0 && config.discard === 'old')
    return 'drops old messages when it is full: set discard to "new"';
  if (config.allow_direct !== true) return 'does not allow direct reads (allow_direct)';
  if (config.duplicate_window < WINDOW_MS * NANOS) return 'has a duplicate window below an hour';
  return undefined;
}

/** Whether a direct read says that there is nothing. */
function isNothing(error: unknown): boolean {
  return /message not found|no results/i.test(errorText(error));
}

function nothingThere(error: unknown): null {
  if (codeOf(error) === CODE.noMessage) return null;
  throw error;
}

function codeOf(error: unknown): number | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && error.code >= 10_000
    ? error.code
    : undefined;
}

function isOlder(version: string, major: number, minor: number): boolean {
  const [foundMajor = 0, foundMinor = 0] = version.split('.').map(Number);
  return foundMajor < major || (foundMajor === major && foundMinor < minor);
}

/** `NatsConnection.close()` waits for the server, which may be frozen. */
function destroy(connection: NatsConnection): void {
  connection.close().catch(() => undefined); // the connection is discarded
  const { transport } = (connection as unknown as { protocol: { transport?: { socket?: { destroy(): void } } } })
    .protocol;
  transport?.socket?.destroy();
}

async function connectionOptions({ urls, times, what }: NatsPlace): Promise<NodeConnectionOptions> {
  const [first] = urls;
  const user = decodeURIComponent(first?.username ?? '');
  const pass = decodeURIComponent(first?.password ?? '');
  const creds = first?.searchParams.get('creds');
  return {
    servers: urls.map(({ host }) => host),
    name: 'policysync',
    reconnect: false, // the keeper reconnects, and checks the log
    timeout: times.connectMs,
    pingInterval: times.lookMs,
    maxPingOut: 1,
    ...(first?.protocol === 'tls:' ? { tls: {} } : {}),
    ...(user === '' ? {} : pass === '' ? { token: user } : { user, pass }),
    ...(typeof creds === 'string' ? { authenticator: await credentials(creds, what) } : {}),
  };
}

async function credentials(file: string, what: string): Promise<NonNullable<NodeConnectionOptions['authenticator']>> {
  const { credsAuthenticator } = await import('@nats-io/transport-node');
  try {
    return credsAuthenticator(await readFile(file));
  } catch (cause) {
    throw new SyncError('config_invalid', `${what}: the creds file cannot be read`, { cause });
  }
}
