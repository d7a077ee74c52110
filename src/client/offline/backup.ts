import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { isAbort, SerialQueue, sleep } from '../../lib/async.js';
import { errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { makePrivate, openFolderProblem } from '../../lib/private-files.js';
import type { Seal } from '../engine/engine.js';
import { type Captured, pinDocuments, sealOf } from './backup-content.js';
import { type BackupContent, headerOf } from './backup-format.js';
import { isEmpty } from './backup-reader.js';
import { removeLeftovers, setAside, writeBackup } from './backup-writer.js';

/** What became of a save: `nothing`: there is no state that is worth the place of the last one. */
export type SaveResult = 'saved' | 'unchanged' | 'nothing';

/** How the backup stands, for status. */
export interface BackupState {
  /** When what is in the file was held; undefined where there is no file that is known to be good. */
  readonly savedMs: number | undefined;
  /** Why the last write, or the file that was found at the start, was no good. */
  readonly error: string | undefined;
}

/**
 * The backup of a client, kept last-known-good: it is written when something has changed, and never with less than what
 * a client that is ready holds (opal-protocol P10.7).
 */
export class Backup {
  readonly #options: { path: string; intervalMs: number };
  readonly #capture: () => Promise<Captured | undefined>;
  readonly #seal: (seal: Seal, writes: number) => Promise<void>;
  readonly #log: Logger;
  readonly #queue = new SerialQueue();
  /** What the file has, and the seal of an engine that has it too. */
  #last: Fingerprint | undefined;
  #fileSeal: Seal | undefined;
  #savedMs: number | undefined;
  #error: string | undefined;
  /** The file there cannot be used: it is set aside, not overwritten. */
  #isRefused = false;

  /**
   * `capture`: what the client holds, or undefined while it is not ready. `seal`: called when the file has what was
   * captured, and never before; with the `writes` of that capture.
   */
  constructor(
    options: { path: string; intervalMs: number },
    deps: {
      capture: () => Promise<Captured | undefined>;
      seal: (seal: Seal, writes: number) => Promise<void>;
      log: Logger;
    },
  ) {
    this.#options = options;
    this.#capture = deps.capture;
    this.#seal = deps.seal;
    this.#log = deps.log;
  }

  get path(): string {
    return this.#options.path;
  }

  get state(): BackupState {
    return { savedMs: this.#savedMs, error: this.#error };
  }

  /**
   * The file was loaded. `isWhole`: the client holds all of it now, so that it need not be written again until something
   * changes. Another program's file is replaced by the next save.
   */
  async loaded(content: BackupContent, isWhole = true): Promise<void> {
    this.#savedMs = content.createdMs > 0 ? content.createdMs : undefined;
    this.#error = undefined;
    const held = content.createdMs > 0 && isWhole ? await this.#capture() : undefined;
    this.#last = held === undefined ? undefined : fingerprint(held.content);
    this.#fileSeal = held === undefined ? undefined : sealOf(content);
  }

  /** The file cannot be used. */
  refused(reason: string): void {
    this.#isRefused = true;
    this.#error = reason;
  }

  /**
   * Saves what the client holds, if that is something else than the file has. Throws `backup_unwritable`. The engine is
   * sealed after that; only the next save and {@link settled} wait for that.
   */
  save(): Promise<SaveResult> {
    const saved = this.#queue.run(() => this.#save());
    this.#queue.run(async () => (await saved).sealable?.()).catch(() => undefined); // the caller of the save has its failure
    return saved.then(({ result }) => result);
  }

  /** Settles when no save is under way. */
  async settled(): Promise<void> {
    await this.#queue.settled();
  }

  /** Saves at the interval until the signal aborts; failures are logged and retried. */
  async run(signal: AbortSignal): Promise<void> {
    await removeLeftovers(this.path);
    await makePrivate([this.path, `${this.path}.refused`]);
    // Whoever can replace the file decides what the next start serves.
    const problem = await openFolderProblem(dirname(this.path), { writeOnly: true });
    if (problem !== undefined) this.#log.warn({ path: this.path }, `SYNC_STORE_BACKUP_PATH: ${problem}`);
    try {
      for (;;) {
        await sleep(this.#options.intervalMs, signal);
        await this.saveOrTell();
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
  }

  /** {@link save} in the background: a failure is logged and shown in {@link state}. */
  async saveOrTell(): Promise<void> {
    try {
      await this.save();
    } catch (error) {
      this.#log.error({ path: this.path, ...failureFields(error) }, 'the backup could not be written');
    }
  }

  async #save(): Promise<{ result: SaveResult; sealable?: () => Promise<void> }> {
    let unpin: (() => Promise<void>) | undefined;
    try {
      const captured = await this.#capture();
      if (captured === undefined || isEmpty(captured.content)) return { result: 'nothing' };
      unpin = pinDocuments(captured.content.documents);
      const print = fingerprint(captured.content);
      const last = this.#last;
      const isSame = last !== undefined && last.policy === print.policy && last.rest === print.rest;
      if (isSame && (await isThere(this.path))) return { result: 'unchanged', ...this.#sealable(captured) };
      const content = { ...captured.content, id: randomUUID() };
      this.#fileSeal = undefined; // until the new one is there
      if (this.#isRefused) await setAside(this.path);
      this.#isRefused = false;
      const startedMs = Date.now();
      await writeBackup(this.path, content);
      this.#last = print;
      this.#fileSeal = sealOf(content);
      this.#savedMs = content.createdMs;
      this.#error = undefined;
      this.#log.info(
        {
          path: this.path,
          documents: content.documents.length,
          policy: content.policy?.hash ?? null,
          duration_ms: Date.now() - startedMs,
        },
        'backup saved',
      );
      return { result: 'saved', ...this.#sealable(captured) };
    } catch (error) {
      this.#error = errorText(error);
      throw error;
    } finally {
      await unpin?.();
    }
  }

  #sealable({ writes }: Captured): { sealable?: () => Promise<void> } {
    const seal = this.#fileSeal;
    return seal === undefined || writes === undefined ? {} : { sealable: () => this.#seal(seal, writes) };
  }
}

/** `policysync/backup/opa.json` in XDG_STATE_HOME, else in `~/.local/state` (XDG Base Directory Specification). */
export function defaultBackupPath(env: Readonly<Record<string, string | undefined>>): string {
  const base = env.XDG_STATE_HOME ?? '';
  const state = isAbsolute(base) ? base : join(env.HOME ?? homedir(), '.local', 'state');
  return join(state, 'policysync', 'backup', 'opa.json');
}

interface Fingerprint {
  readonly policy: BackupContent['policy'];
  readonly rest: string;
}

/**
 * What distinguishes two contents: documents by their hashes, a policy by being the same one. Each reconnect takes a place
 * for updates without seqs; where the log has seqs that is no change.
 */
function fingerprint(content: BackupContent): Fingerprint {
  const { position, ...header } = headerOf(content, 0);
  const next = position.epoch === null ? position.next : 0;
  return {
    policy: content.policy,
    rest: JSON.stringify({ ...header, position: { ...position, next }, created: '', id: '' }),
  };
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch {
    return false; // Gone, or not to be seen: writing it again reports it.
  }
}
