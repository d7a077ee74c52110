import type { Dirent } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import {
  makePrivate,
  makeTreePrivate,
  openFolderProblem,
  readIfPresent,
  replaceFile,
} from '../../lib/private-files.js';

/** Says that a folder is ours, and of which repository. Written before anything else, so a crash never hides it. */
const MARKER_FILE = 'policysync-mirror.json';
/** The ssh key, where it came as text. */
const SSH_KEY_FILE = 'policysync-ssh-key';
/** Made by file systems at the root of a volume. */
const FOREIGN_BUT_HARMLESS: ReadonlySet<string> = new Set(['lost+found']);
/** A write that a kill cut short, or an import that failed, leaves these behind. */
const LEFT_BY_A_KILL = /\.lock$|^tmp_|^fast_import_crash_/;

const marker = z.object({
  version: z.literal(1),
  url: z.string(),
  /** All files in it are closed to other users. Missing: an older version made it. */
  private: z.boolean().default(false),
});
type Marker = z.infer<typeof marker>;
/** A marker of another version, or a damaged one. */
const UNREADABLE: Marker = { version: 1, url: '', private: false };

/** The folder of a mirror: whose it is, and what a killed git left in it. Nothing is removed that we did not make. */
export interface MirrorFolder {
  readonly path: string;
  readonly sshKeyPath: string;
  /**
   * Takes the folder: makes it, or checks that it is our mirror of this source. `new` when there is no repository yet. A mirror of
   * another source is replaced in the default folder; in one that the operator named it is refused.
   * Throws `config_invalid` when it is something else.
   */
  claim(): Promise<'new' | 'existing'>;
  /** Removes lock files and temporary objects. Only while no git of ours writes. */
  removeLeftovers(): Promise<void>;
  /** Empties the folder; the marker stays, and so does what is named. */
  empty(keep?: readonly string[]): Promise<void>;
}

export interface MirrorFolderOptions {
  path: string;
  /** Address of the source, without credentials. */
  url: string;
  /** Whether an address, as an earlier run wrote it, means the same source. */
  isSame(url: string): boolean;
  /** The folder is the default one in the state folder: what is in it is ours to replace. */
  isOwn: boolean;
}

/** A {@link MirrorFolder}. */
export function mirrorFolder(options: MirrorFolderOptions, deps: { log: Logger }): MirrorFolder {
  const { path, url } = options;
  let warned = false;
  const mark = (): Promise<void> =>
    replaceFile(join(path, MARKER_FILE), `${JSON.stringify({ version: 1, url, private: true })}\n`);
  const refused = (why: string, cause?: unknown): SyncError => refusal(options, why, cause);
  const empty = async (keep: readonly string[] = []): Promise<void> => {
    const names = await ourNames(path);
    for (const name of names.filter((name) => !keep.includes(name)))
      await rm(join(path, name), { recursive: true, force: true });
  };
  return {
    path,
    sshKeyPath: join(path, SSH_KEY_FILE),
    claim: async () => {
      await mkdir(path, { recursive: true, mode: 0o700 });
      if (options.isOwn) await makePrivate([path]);
      const problem = await openFolderProblem(path);
      if (problem !== undefined && !warned) deps.log.warn({ folder: path }, problem);
      warned = true;
      const owner = await readMarker(path, (cause) => {
        if (options.isOwn) return UNREADABLE;
        throw refused(`has an unreadable ${MARKER_FILE}`, cause);
      });
      if (owner === undefined) {
        if ((await ourNames(path)).length > 0) throw refused('is not empty and is no mirror that this server made');
        await mark();
        return 'new';
      }
      if (!options.isSame(owner.url)) {
        if (!options.isOwn) throw refused(`is a mirror of ${owner.url}, not of ${url}`);
        deps.log.warn(
          { folder: path, was: owner === UNREADABLE ? null : owner.url, now: url },
          'the policy source has changed: its local copy is rebuilt',
        );
        await empty(); // the mark comes last: a crash before it leaves the mirror to be replaced again
        await mark();
        return 'new';
      }
      if (!owner.private) {
        await makeTreePrivate(path);
        await mark();
      }
      return (await ourNames(path)).includes('HEAD') ? 'existing' : 'new';
    },
    removeLeftovers: async () => {
      // Loose objects are many and written under temporary names in their own folders; git ignores those, so only the
      // places where a leftover is in the way (locks) or large (packs) are walked.
      for (const folder of ['.', 'refs', 'objects/info', 'objects/pack', 'logs']) {
        await removeMatching(join(path, folder), folder !== '.');
      }
    },
    empty,
  };
}

async function readMarker(path: string, unreadable: (cause: unknown) => Marker): Promise<Marker | undefined> {
  const text = await readIfPresent(join(path, MARKER_FILE));
  if (text === undefined) return undefined;
  // An empty marker was cut short by a crash. It was the first write, so nothing else can be there.
  if (text.trim() === '') {
    await rm(join(path, MARKER_FILE));
    return undefined;
  }
  try {
    return marker.parse(JSON.parse(text));
  } catch (cause) {
    return unreadable(cause);
  }
}

/** Everything in the folder but the marker. */
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
