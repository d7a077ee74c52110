import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, SerialQueue, sleep } from '../../lib/run/async.js';
import { stateHome } from '../../lib/settings/home-path.js';
import { makePrivate, openFolderProblem } from '../../lib/settings/private-files.js';
import type { Seal } from '../engine/engine.js';
import type { ClientSettings } from '../options.js';
import { type Captured, pinDocuments, sealOf } from './backup-content.js';
import { type BackupContent, headerOf } from './backup-format.js';
import { isEmpty } from './backup-reader.js';
import { removeLeftovers, setAside, writeBackup } from './backup-writer.js';

/** The result of a save. `nothing`: there is no state that should replace the last one. */
export type SaveResult = 'saved' | 'unchanged' | 'nothing';

/** State of the backup, for status. */
export interface BackupState {
  /** Time of the saved state; undefined if there is no valid file. */
  readonly savedMs: number | undefined;
  /** Why the last write failed, or the file found at the start is invalid. */
  readonly error: string | undefined;
}

/**
 * The last-known-good backup of a client. Written when something has changed, and only with the
 * state of a ready client (opal-protocol P10.7).
 */
export class Backup {
  readonly #options: { path: string; intervalMs: number };
  readonly #capture: () => Promise<Captured | undefined>;
  readonly #seal: (seal: Seal, writes: number) => Promise<void>;
  readonly #log: Logger;
  readonly #queue = new SerialQueue();
  /** The content of the file, and the seal of an engine with the same content. */
  #last: Fingerprint | undefined;
  #fileSeal: Seal | undefined;
  #savedMs: number | undefined;
  #error: string | undefined;
  /** True: the existing file is unusable and is renamed, not overwritten. */
  #isRefused = false;

  /**
   * `capture` returns the content of the client, or undefined while it is not ready. `seal` is
   * called, with the `writes` of a capture, once the file has its content.
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
   * Called when the file was loaded. `isWhole`: the client holds all of it, so that it need not be
   * written again until something changes. The next save replaces a file of another program.
   */
  async loaded(content: BackupContent, isWhole = true): Promise<void> {
    this.#savedMs = content.createdMs > 0 ? content.createdMs : undefined;
    this.#error = undefined;
    const held = content.createdMs > 0 && isWhole ? await this.#capture() : undefined;
    this.#last = held === undefined ? undefined : fingerprint(held.content);
    this.#fileSeal = held === undefined ? undefined : sealOf(content);
  }

  /** Called when the file is unusable. */
  refused(reason: string): void {
    this.#isRefused = true;
    this.#error = reason;
  }

  /**
   * Saves the content of the client if it differs from the file. Rejects with `backup_unwritable`.
   * Seals the engine afterwards; only the next save and {@link settled} wait for the seal.
   */
  save(): Promise<SaveResult> {
    const saved = this.#queue.run(() => this.#save());
    this.#queue.run(async () => (await saved).sealable?.()).catch(() => undefined); // the caller of `save` reports its failure
    return saved.then(({ result }) => result);
  }

  /** Settles when no save is in progress. */
  async settled(): Promise<void> {
    await this.#queue.settled();
  }

  /** Saves at the interval until the signal aborts; failures are logged and retried. */
  async run(signal: AbortSignal): Promise<void> {
    await removeLeftovers(this.path);
    await makePrivate([this.path, `${this.path}.refused`]);
    // A user who can replace the file controls what the next start serves.
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
      if (isSame && (await isThere(this.path))) {
        this.#error = undefined; // the file has this state again
        return { result: 'unchanged', ...this.#sealable(captured) };
      }
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

/**
 * `policysync/backup/opa.json` in XDG_STATE_HOME, otherwise in `~/.local/state` (XDG Base Directory
 * Specification).
 */
export function defaultBackupPath(
  env: Readonly<Record<string, string | undefined>>,
  look?: Parameters<typeof stateHome>[2],
): string {
  return join(stateHome(env, 'SYNC_STORE_BACKUP_PATH', look), 'policysync', 'backup', 'opa.json');
}

/**
 * Where a client has its backup; undefined without offline mode, in which a user without a home
 * folder needs no path for it.
 */
export function backupPath(
  settings: Pick<ClientSettings, 'backupPath' | 'offlineModeEnabled'>,
  ...[env, look]: Parameters<typeof defaultBackupPath>
): string | undefined {
  return settings.offlineModeEnabled ? (settings.backupPath ?? defaultBackupPath(env, look)) : undefined;
}

interface Fingerprint {
  readonly policy: BackupContent['policy'];
  readonly rest: string;
}

/**
 * Identifies a content: documents by their hashes, the policy by identity. Each reconnect advances
 * `next`, for updates without seqs; with seqs in the log this is no change.
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
    return false; // missing or inaccessible: the next write reports it
  }
}
