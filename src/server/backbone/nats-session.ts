import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type {
  JetStreamClient,
  JetStreamManager,
  JetStreamPublishOptions,
  PubAck,
  StoredMsg,
  StreamConfig,
  StreamInfo,
} from '@nats-io/jetstream';
import type { NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node';
import { errorText, SyncError } from '../../lib/errors.js';
import { ANSWER_CHARS, type Durability } from '../log/log-store.js';
import { conflict, DEDUP_MS, unavailable, unwritable } from './backbone-errors.js';
import type { BackboneState, BackboneTimes, Session, SessionHooks } from './session-keeper.js';

/** Where a log is in NATS. */
export interface NatsPlace {
  /** All addresses of the setting; credentials and scheme are those of the first. */
  readonly urls: readonly URL[];
  /** Without secrets, for messages. */
  readonly what: string;
  readonly names: NatsNames;
  readonly times: BackboneTimes;
  /** SYNC_BROADCAST_NATS_SYNC_ALWAYS: the operator's word, since no client can ask. */
  readonly syncAlways: boolean;
}

/** Streams of one log, and their subjects. */
export interface NatsNames {
  readonly log: string;
  readonly retired: string;
  readonly presence: string;
  /** Followed by the kind of the row. */
  readonly rowSubject: string;
  readonly retiredSubject: string;
  /** Followed by the instance. */
  readonly presenceSubject: string;
}

export function natsNames(name: string): NatsNames {
  return {
    log: `${name}_log`,
    retired: `${name}_retired`,
    presence: `${name}_presence`,
    rowSubject: `${name}.log.`,
    retiredSubject: `${name}.retired`,
    presenceSubject: `${name}.presence.`,
  };
}

const NANOS = 1_000_000;
const EPOCH = 'policysync-epoch';
const FORM = 'policysync-form';
const NATS_FORM = 1;
/** Codes of the JetStream API. */
const CODE = { wrongLastSequence: 10_071, streamExists: 10_058, streamNotFound: 10_059, noMessage: 10_037 };
/** No memory, no disk, no room in the stream, too large for it. */
const FULL = [10_023, 10_028, 10_047, 10_077, 10_054];
/** Presence of instances that never came back. */
const PRESENCE_AGE_MS = 24 * 60 * 60 * 1000;

export class NatsSession implements Session {
  readonly #place: NatsPlace;
  readonly #hooks: SessionHooks;
  readonly #connection: NatsConnection;
  readonly #stream: JetStreamClient;
  readonly #manager: JetStreamManager;

  #isFollowing = false;

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
  }

  static async connect(place: NatsPlace, hooks: SessionHooks): Promise<NatsSession> {
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
      return new NatsSession(place, hooks, { connection, manager, stream: jetstream(connection, { timeout }) });
    } catch (error) {
      destroy(connection);
      throw error;
    }
  }

  /** Largest message that the server takes. */
  get limitBytes(): number {
    return this.#connection.info?.max_payload ?? 1024 * 1024;
  }

  async publish(
    subject: string,
    body: Uint8Array | string,
    options: Partial<JetStreamPublishOptions>,
  ): Promise<PubAck> {
    try {
      return await this.#stream.publish(subject, body, { timeout: this.#place.times.callMs, ...options });
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async headers(values: Readonly<Record<string, string>>): Promise<JetStreamPublishOptions['headers']> {
    const { headers } = await import('@nats-io/transport-node');
    const made = headers();
    for (const [name, value] of Object.entries(values)) made.set(name, value);
    return made;
  }

  info(stream: string): Promise<StreamInfo> {
    return this.#asking(() => this.#manager.streams.info(stream));
  }

  /** Messages from a position on, at most so many, fewer where they are large; empty: there are none. */
  async messages(stream: string, from: number, count: number): Promise<StoredMsg[]> {
    return await this.#asking(async () => {
      const found: StoredMsg[] = [];
      for (let bytes = 0; found.length < count && bytes < ANSWER_CHARS; ) {
        const seq = (found.at(-1)?.seq ?? from - 1) + 1;
        const before = found.length;
        const query = { seq, batch: count - before, max_bytes: ANSWER_CHARS };
        try {
          for await (const message of await this.#manager.direct.getBatch(stream, query)) {
            found.push(message);
            bytes += message.data.length;
          }
        } catch (error) {
          if (!/message not found|no results/i.test(errorText(error))) throw error;
        }
        // One answer may be cut short by the server's limit of bytes: only an empty one is the end.
        if (found.length === before) break;
      }
      return found;
    });
  }

  /** The last row of a kind; 0: there is none. */
  async lastOf(subject: string): Promise<number> {
    return await this.#asking(async () => {
      const query = { last_by_subj: subject };
      const message = await this.#manager.streams.getMessage(this.#place.names.log, query).catch(nothingThere);
      return message?.seq ?? 0;
    });
  }

  /** False where it is not there any more. */
  async remove(stream: string, seq: number): Promise<boolean> {
    return await this.#asking(async () => {
      try {
        return await this.#manager.streams.deleteMessage(stream, seq, false);
      } catch (error) {
        if (codeOf(error) === CODE.noMessage || /no message|not found/i.test(errorText(error))) return false;
        throw error;
      }
    });
  }

  async look(seq: number): Promise<BackboneState> {
    const { names } = this.#place;
    try {
      await this.#follow();
      const { state, config, created } = await this.#manager.streams.info(names.log);
      const row = seq === 0 ? null : await this.#manager.streams.getMessage(names.log, { seq }).catch(nothingThere);
      return {
        epoch: epochOf(created, config.metadata),
        head: state.last_seq,
        rowMs: row === null ? undefined : Math.floor(row.time.getTime()),
      };
    } catch (error) {
      if (codeOf(error) === CODE.streamNotFound) return { epoch: undefined, head: 0, rowMs: undefined };
      throw this.#failure(error);
    }
  }

  async renewEpoch(old: string): Promise<void> {
    const { log } = this.#place.names;
    const { config, created } = await this.info(log);
    if (epochOf(created, config.metadata) !== old) return;
    await this.#asking(() =>
      this.#manager.streams.update(log, { metadata: { ...config.metadata, [EPOCH]: randomUUID() } }),
    );
  }

  /** Makes the streams where there are none, and answers the epoch; never changes streams that are there. */
  async prepare(): Promise<string> {
    const { names, what } = this.#place;
    if (!this.#connection.info?.version || isOlder(this.#connection.info.version, 2, 11)) {
      throw new SyncError(
        'config_invalid',
        `${what}: nats-server ${this.#connection.info?.version} is too old; 2.11 or later is needed`,
      );
    }
    const file = { storage: 'file', allow_direct: true, duplicate_window: DEDUP_MS * NANOS } as Partial<StreamConfig>;
    const metadata = { [FORM]: String(NATS_FORM) };
    await this.#make({ ...file, name: names.log, subjects: [`${names.rowSubject}*`], metadata });
    await this.#make({ ...file, name: names.retired, subjects: [names.retiredSubject], duplicate_window: 0 });
    await this.#make({
      name: names.presence,
      subjects: [`${names.presenceSubject}*`],
      storage: 'memory',
      allow_direct: true,
      max_msgs_per_subject: 1,
      max_age: PRESENCE_AGE_MS * NANOS,
      duplicate_window: 0,
    } as Partial<StreamConfig>);
    const { config, created } = await this.info(names.log);
    const form = Number(config.metadata?.[FORM] ?? NATS_FORM);
    if (form > NATS_FORM) {
      throw new SyncError(
        'log_damaged',
        `${what}: a newer version wrote the update log (form ${form}, known ${NATS_FORM})`,
      );
    }
    const wrong = unfit(config);
    if (wrong !== undefined) throw new SyncError('config_invalid', `${what}: the stream ${names.log} ${wrong}`);
    await this.#follow();
    return epochOf(created, config.metadata);
  }

  async durability(): Promise<Durability> {
    const { storage } = (await this.info(this.#place.names.log)).config;
    if (storage !== 'file') return { level: 'weak', reason: `NATS: the stream is kept in ${storage}` };
    if (this.#place.syncAlways) return { level: 'durable' };
    return {
      level: 'weak',
      reason:
        'NATS: whether its servers run with sync_interval "always" cannot be asked; SYNC_BROADCAST_NATS_SYNC_ALWAYS says so',
    };
  }

  /** Starts to hint at each new row, once there is a log: the keeper prepares its first session, and checks each later one. */
  async #follow(): Promise<void> {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    const { DeliverPolicy } = await import('@nats-io/jetstream');
    const options = { deliver_policy: DeliverPolicy.New, headers_only: true };
    const consumer = await this.#stream.consumers.get(this.#place.names.log, options);
    const messages = await consumer.consume();
    const read = async (): Promise<void> => {
      for await (const { seq } of messages) this.#hooks.hint(seq);
      throw new Error('the consumer ended');
    };
    read().catch((error: unknown) => this.#hooks.lost(error));
  }

  end(): void {
    destroy(this.#connection);
  }

  async #make(config: Partial<StreamConfig>): Promise<void> {
    const name = config.name ?? '';
    try {
      await this.#manager.streams.info(name);
      return;
    } catch (error) {
      if (codeOf(error) !== CODE.streamNotFound) throw this.#failure(error);
    }
    try {
      await this.#manager.streams.add({ ...config, name });
    } catch (error) {
      if (codeOf(error) !== CODE.streamExists) throw this.#failure(error); // another instance was faster
    }
  }

  async #asking<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** An answer of JetStream as a `SyncError`; anything else stays as it is: the connection is of no use. */
  #failure(error: unknown): unknown {
    const { what } = this.#place;
    const code = codeOf(error);
    if (error instanceof SyncError || code === undefined) return error;
    if (code === CODE.wrongLastSequence) return conflict(what);
    if (FULL.includes(code)) return unwritable(what, error);
    return unavailable(what, errorText(error), error);
  }
}

/** A stream that was made again has another time of making; one whose rows are gone gets a mark. */
function epochOf(created: string, metadata: Record<string, string> | undefined): string {
  return `${created}/${metadata?.[EPOCH] ?? ''}`.replaceAll(/[^0-9a-zA-Z]/g, '');
}

/** Why rows could get lost in a stream that somebody else made. */
function unfit(config: StreamConfig): string | undefined {
  if (config.retention !== 'limits') return `has retention ${config.retention}: it must be "limits"`;
  if (config.max_age > 0 || config.max_msgs > 0 || config.max_msgs_per_subject > 0)
    return 'drops messages by age or number';
  if (config.max_bytes > 0 && config.discard === 'old')
    return 'drops old messages when it is full: set discard to "new"';
  if (config.allow_direct !== true) return 'does not allow direct reads (allow_direct)';
  if (config.duplicate_window < DEDUP_MS * NANOS) return 'has a duplicate window below 24 hours';
  return undefined;
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

/** `close()` waits for the server, which may be frozen. */
function destroy(connection: NatsConnection): void {
  connection.close().catch(() => undefined); // it is given up
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
    reconnect: false, // the keeper connects anew, and checks what it finds
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
    throw new SyncError('config_invalid', `${what}: the file of creds cannot be read`, { cause });
  }
}
