import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';

const STATE_FILE = 'policysync-bundle.json';
/** Swept by {@link MirrorFolder.removeLeftovers}, as everything of this form. */
const TEMPORARY_FILE = 'tmp_policysync-bundle.json';

const stateSchema = z.strictObject({
  version: z.literal(1),
  /** The commit that the archive became. */
  commit: z.string(),
  /** Entity tag that the archive came with. */
  etag: z.string().optional(),
  /** Of the archive, hexadecimal. */
  sha256: z.string(),
});

/** Which archive a bundle source took last, and what it became. */
export type BundleState = Omit<z.infer<typeof stateSchema>, 'version'>;

/** The state in a repository folder; undefined where there is none that can be read: then the archive is asked for anew. */
export async function readBundleState(folder: string): Promise<BundleState | undefined> {
  let text: string;
  try {
    text = await readFile(join(folder, STATE_FILE), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { version: _, ...state } = stateSchema.parse(JSON.parse(text));
    return state;
  } catch {
    return undefined; // not ours, or of another version; documented above
  }
}

/** Replaces the state: a crash leaves the old one or the new one. */
export async function writeBundleState(folder: string, state: BundleState): Promise<void> {
  const temporary = join(folder, TEMPORARY_FILE);
  const file = await open(temporary, 'w', 0o600);
  try {
    await file.writeFile(`${JSON.stringify({ version: 1, ...state })}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(folder, STATE_FILE));
}
