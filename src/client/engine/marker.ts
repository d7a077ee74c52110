import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import type { EngineMarker, EngineSeals, Seal } from './engine.js';
import type { OpaRest } from './opa-rest.js';

/** The marker document: below `system`, which OPA keeps out of queries over all data. */
export const MARKER_PATH: DocPath = parseDocPath('system/policysync/marker');

/** Default of `doubtMs`: twice the longest wait for the engine. */
const DOUBT_MS = 60_000;

const seal = z.object({ backup: z.string(), epoch: z.string().nullable(), seq: z.number().nullable() });
const document = z.object({ client_state: z.string(), filling: z.boolean().default(false), ...seal.partial().shape });
type Found = z.infer<typeof document>;

/**
 * The document that names this life of this client in the engine (design D23). Missing or foreign means that the engine
 * started anew, or that another client fills it.
 *
 * It has another `client_state` after each of our writes to it, and only the one that was there before can be replaced
 * (`is` carries it for that: a patch fails where the member is missing). So a write of ours that comes late, after its
 * time-out, changes nothing, and never replaces the mark of another client.
 */
export class Marker implements EngineMarker, EngineSeals {
  readonly #rest: OpaRest;
  readonly #doubtMs: number;
  readonly #life = randomUUID();
  #count = 0;
  /** What the engine has of ours; undefined while that is not known. */
  #at: string | undefined;
  /** There may be a seal; and the one that there is for certain. */
  #maySeal = false;
  #sealed: string | undefined;
  #writes = 0;
  /** Until then a write of unknown outcome may still come into the engine; of `performance.now()`. */
  #doubtUntil = Number.NEGATIVE_INFINITY;

  /** `doubtMs`: how long a request that was given up may still take effect. */
  constructor(rest: OpaRest, options: { readonly doubtMs?: number | undefined } = {}) {
    this.#rest = rest;
    this.#doubtMs = options.doubtMs ?? DOUBT_MS;
  }

  async isThere(signal: AbortSignal): Promise<boolean> {
    const found = await this.#read(signal);
    return found !== undefined && this.#isOurs(found) && !found.filling;
  }

  async begin(signal: AbortSignal): Promise<void> {
    // Of an engine that was filled before, by whomever, what is on its way there is not known.
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

  /** The `client_state` that the engine has; undefined where it is not one of ours. */
  async #known(signal: AbortSignal): Promise<string | undefined> {
    if (this.#at !== undefined) return this.#at;
    const found = await this.#read(signal);
    return found !== undefined && this.#isOurs(found) && !found.filling ? found.client_state : undefined;
  }

  /** Replaces the mark where it is still `from`; false, and nothing has changed, where it is not. */
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
    return text === undefined ? undefined : (document.safeParse(JSON.parse(text)).data ?? FOREIGN);
  }

  #isOurs({ client_state: state }: Found): boolean {
    return state.startsWith(`${this.#life}.`);
  }

  #nextId(): string {
    return `${this.#life}.${++this.#count}`;
  }
}

/** A marker in a form that we do not know. */
const FOREIGN: Found = { client_state: '', filling: true };

function textOf(id: string, members: object): string {
  return JSON.stringify({ client_state: id, is: { [id]: true }, ...members });
}

function startedAnew(): SyncError {
  return new SyncError('engine_unreachable', 'the engine started anew, or another client fills it', {
    retryable: true,
  });
}
