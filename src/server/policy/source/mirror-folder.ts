import type { Dirent } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { SyncError } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import { type Logger, redactUrl } from '../../../lib/observe/log.js';
import { isPassing, whyUnwritable } from '../../../lib/settings/file-problem.js';
import {
  makeFolder,
  makePrivate,
  makeTreePrivate,
  openFolderProblem,
  readIfPresent,
  replaceFile,
} from '../../../lib/settings/private-files.js';

/** Marks a folder as ours and names its repository. Written first, so that it survives a crash. */
const MARKER_FILE = 'policysync-mirror.json';
/** The ssh key, if the setting contains its text. */
const SSH_KEY_FILE = 'policysync-ssh-key';
/** Created by file systems at the root of a volume. */
const FOREIGN_BUT_HARMLESS: ReadonlySet<string> = new Set(['lost+found']);
/** Leftovers of a killed write or a failed import. */
const LEFT_BY_A_KILL = /\.lock$|^tmp_|^fast_import_crash_/;

const marker = z.object({
  version: z.literal(1),
  url: z.string(),
  /** Whether all files are closed to other users. Missing: an older version created the folder. */
  private: z.boolean().default(false),
});
type Marker = z.infer<typeof marker>;
/** A marker of another version, or a damaged one. */
const UNREADABLE: Marker = { version: 1, url: '', private: false };

export interface MirrorFolderOptions {
  path: string;
  /** Address of the source, without credentials. */
  url: string;
  /** Whether an address, as written by an earlier run, means the same source. */
  isSame(url: string): boolean;
  /** Whether the folder is the default one in the state folder: its content may be replaced. */
  isOwn: boolean;
}

/**
 * The folder of a mirror: its source, and leftovers of a killed git. Removes only what this server
 * created.
 */
export class MirrorFolder {
  readonly path: string;
  readonly sshKeyPath: string;
  readonly #options: MirrorFolderOptions;
  readonly #log: Logger;
  #warned = false;
  #wasUsable = false;

  constructor(options: MirrorFolderOptions, log: Logger) {
    this.path = options.path;
    this.sshKeyPath = join(options.path, SSH_KEY_FILE);
    this.#options = options;
    this.#log = log;
  }

  /**
   * Creates the folder, or checks that it is a mirror of this source. Returns `new` if there is no
   * repository yet. Replaces a mirror of another source in the default folder. Throws
   * `config_invalid` if a folder that the operator chose holds anything else, or cannot be used.
   */
  async claim(): Promise<'new' | 'existing'> {
    try {
      const found = await this.#claim();
      this.#wasUsable = true;
      return found;
    } catch (cause) {
      // What was usable may be so again, as a file system that is away.
      if (this.#wasUsable || cause instanceof SyncError || isPassing(cause)) throw cause;
      throw refusal(this.#options, `cannot be used (${whyUnwritable(cause)})`, cause);
    }
  }

  async #claim(): Promise<'new' | 'existing'> {
    const { path, url, isOwn, isSame } = this.#options;
    await makeFolder(path);
    if (isOwn) await makePrivate([path]);
    const problem = await openFolderProblem(path);
    if (problem !== undefined && !this.#warned) this.#log.warn({ folder: path }, problem);
    this.#warned = true;
    const owner = await readMarker(path, (cause) => {
      if (isOwn) return UNREADABLE;
      throw refusal(this.#options, `has an unreadable ${MARKER_FILE}`, cause);
    });
    if (owner === undefined) {
      if ((await ourNames(path)).length > 0)
        throw refusal(this.#options, 'is not empty and is no mirror that this server made');
      return await this.#markNew();
    }
    if (!isSame(owner.url)) {
      if (!isOwn) throw refusal(this.#options, `is a mirror of ${redactUrl(owner.url)}, not of ${redactUrl(url)}`);
      const fields = { folder: path, was: owner === UNREADABLE ? null : redactUrl(owner.url), now: redactUrl(url) };
      this.#log.warn(fields, 'the policy source has changed: its local copy is rebuilt');
      await this.empty(); // before the marker: after a crash in between, the mirror is replaced again
      return await this.#markNew();
    }
    if (!owner.private) {
      await makeTreePrivate(path);
      await this.#markNew();
    }
    return (await ourNames(path)).includes('HEAD') ? 'existing' : 'new';
  }

  /** Removes lock files and temporary objects. Call it only while no git of this server writes. */
  async removeLeftovers(): Promise<void> {
    // Git ignores temporary loose objects, of which there may be many: walk only the folders where
    // a leftover blocks git (locks) or is large (packs).
    for (const folder of ['.', 'refs', 'objects/info', 'objects/pack', 'logs']) {
      await removeMatching(join(this.path, folder), folder !== '.');
    }
  }

  /** Empties the folder except for the marker and the names in `keep`. */
  async empty(keep: readonly string[] = []): Promise<void> {
    for (const name of await ourNames(this.path)) {
      if (!keep.includes(name)) await rm(join(this.path, name), { recursive: true, force: true });
    }
  }

  async #markNew(): Promise<'new'> {
    const text = JSON.stringify({ version: 1, url: this.#options.url, private: true });
    await replaceFile(join(this.path, MARKER_FILE), `${text}\n`);
    return 'new';
  }
}

async function readMarker(path: string, unreadable: (cause: unknown) => Marker): Promise<Marker | undefined> {
  const text = await readIfPresent(join(path, MARKER_FILE));
  if (text === undefined) return undefined;
  // A crash truncated the marker. It is the first write, so the folder is otherwise empty.
  if (text.trim() === '') {
    await rm(join(path, MARKER_FILE));
    return undefined;
  }
  try {
    return marker.parse(parseJson(text));
  } catch (cause) {
    return unreadable(cause);
  }
}

/** Lists everything in the folder except the marker. */
async function ourNames(path: string): Promise<string[]> {
  const names = await readdir(path);
  return names.filter(
    (name) => name !== MARKER_FILE && name !== `tmp_${MARKER_FILE}` && !FOREIGN_BUT_HARMLESS.has(name),
  );
}

async function removeMatching(folder: string, recursive: boolean): Promise<void> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (recursive) await removeMatching(path, true);
    } else if (LEFT_BY_A_KILL.test(entry.name)) await rm(path, { force: true });
  }
}

function refusal({ path, isOwn }: MirrorFolderOptions, why: string, cause?: unknown): SyncError {
  const message = isOwn
    ? `the policy folder ${path} of SYNC_STATE_DIR ${why}; move it away, or set SYNC_POLICY_REPO_CLONE_PATH to an empty folder`
    : `SYNC_POLICY_REPO_CLONE_PATH ${path} ${why}; choose an empty folder, or leave the setting out for one in SYNC_STATE_DIR`;
  return new SyncError('config_invalid', message, { cause });
}
