import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import { parseJson } from '../../lib/json/json.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { EngineMarker, EngineSeals, Seal } from './engine.js';
import type { OpaRest } from './opa/opa-rest.js';

/** The marker document: below `system`, which OPA excludes from queries over all data. */
export const MARKER_PATH: DocPath = parseDocPath('system/policysync/marker');

/** Default of `doubtMs`: twice the engine timeout. */
const DOUBT_MS = 60_000;

const seal = z.object({ backup: z.string(), epoch: z.string().nullable(), seq: z.number().nullable() });
const document = z.object({ client_state: z.string(), filling: z.boolean().default(false), ...seal.partial().shape });
type Found = z.infer<typeof document>;

/**
 * The document that identifies this run of this client in the engine (design D23). If it is missing
 * or foreign, the engine has restarted, or another client fills it.
 *
 * Each write changes its `client_state`, and replaces only the expected previous one (as a member
 * of `is`: a patch fails if the member is missing). So a write that arrives late, after its
 * timeout, changes nothing and never replaces the mark of another client.
 */
export class Marker implements EngineMarker, EngineSeals {
  readonly #rest: OpaRest;
  readonly #doubtMs: number;
  readonly #life = randomUUID();
  #count = 0;
  /** Our `client_state` in the engine; undefined while unknown. */
  #at: string | undefined;
  /** Whether there may be a seal; and the one that certainly exists. */
  #maySeal = false;
  #sealed: string | undefined;
  #writes = 0;
  /** Until then, a write of unknown outcome may still take effect; in `performance.now()` time. */
  #doubtUntil = Number.NEGATIVE_INFINITY;

  /** `doubtMs`: how long a timed-out request may still take effect. */
  constructor(rest: OpaRest, options: { readonly doubtMs?: number | undefined } = {}) {
    this.#rest = rest;
    this.#doubtMs = options.doubtMs ?? DOUBT_MS;
  }

  async isThere(signal: AbortSignal): Promise<boolean> {
    const found = await this.#read(signal);
    return found !== undefined && this.#isOurs(found) && !found.filling;
  }

  async begin(signal: AbortSignal): Promise<void> {
    // If anyone filled the engine before, writes of theirs may still be in flight.
    if ((await this.#read(signal)) === undefined) this.#doubtUntil = Number.NEGATIVE_INFINITY;
    else this.inDoubt();
    this.#writes++;
    this.#maySeal = false;
    this.#sealed = undefined;
    this.#at = undefined;
    const id = this.#nextId();
    await this.#rest.write([{ op: 'put', path: MARKER_PATH, text: () => textOf(id, { filling: true }) }], signal);
    this.#at = id;
  }

  async complete(signal: AbortSignal): Promise<void> {
    if (this.#at !== undefined && (await this.#replace(this.#at, {}, signal))) return;
    throw startedAnew();
  }

  get writes(): number {
    return this.#writes;
  }

  async changes(signal: AbortSignal): Promise<void> {
    this.#writes++;
    if (!this.#maySeal) return;
    const from = await this.#known(signal);
    if (from === undefined || !(await this.#replace(from, {}, signal))) throw startedAnew();
    this.#maySeal = false;
  }

  inDoubt(): void {
    this.#doubtUntil = performance.now() + this.#doubtMs;
  }

  async seal(wanted: Seal, writes: number, signal: AbortSignal): Promise<boolean> {
    if (writes !== this.#writes || performance.now() < this.#doubtUntil) return false;
    if (this.#sealed === wanted.backup) return true;
    const from = await this.#known(signal);
    return from !== undefined && this.#sealOver(from, wanted, signal);
  }

  async claim({ backup, epoch, seq }: Seal, signal: AbortSignal): Promise<boolean> {
    const found = await this.#read(signal);
    const isIt = found?.filling === false && found.backup === backup && found.epoch === epoch && found.seq === seq;
    if (!isIt) return false;
    return this.#sealOver(found.client_state, { backup, epoch, seq }, signal);
  }

  async #sealOver(from: string, wanted: Seal, signal: AbortSignal): Promise<boolean> {
    this.#maySeal = true;
    const isDone = await this.#replace(from, wanted, signal);
    if (isDone) this.#sealed = wanted.backup;
    return isDone;
  }

  /** Returns the `client_state` in the engine; undefined if it is not ours. */
  async #known(signal: AbortSignal): Promise<string | undefined> {
    if (this.#at !== undefined) return this.#at;
    const found = await this.#read(signal);
    return found !== undefined && this.#isOurs(found) && !found.filling ? found.client_state : undefined;
  }

  /** Replaces the mark if it is still `from`; otherwise returns false and changes nothing. */
  async #replace(from: string, members: object, signal: AbortSignal): Promise<boolean> {
    const id = this.#nextId();
    this.#at = undefined;
    this.#sealed = undefined;
    const isDone = await this.#rest.replace(MARKER_PATH, textOf(id, members), signal, [...MARKER_PATH, 'is', from]);
    if (isDone) this.#at = id;
    return isDone;
  }

  async #read(signal: AbortSignal): Promise<Found | undefined> {
    const text = await this.#rest.getData(MARKER_PATH, signal);
    return text === undefined ? undefined : (document.safeParse(parseJson(text)).data ?? FOREIGN);
  }

  #isOurs({ client_state: state }: Found): boolean {
    return state.startsWith(`${this.#life}.`);
  }

  #nextId(): string {
    return `${this.#life}.${++this.#count}`;
  }
}

/** A marker of unknown form. */
const FOREIGN: Found = { client_state: '', filling: true };

function textOf(id: string, members: object): string {
  return JSON.stringify({ client_state: id, is: { [id]: true }, ...members });
}

function startedAnew(): SyncError {
  return new SyncError('engine_unreachable', 'the engine started anew, or another client fills it', {
    retryable: true,
  });
}
