import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { errorText } from '../../../lib/errors.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import type { Logger } from '../../../lib/observe/log.js';
import { cacheFolder } from '../../../lib/run/cache-folder.js';
import { makeFolder, readIfPresent, replaceFile } from '../../../lib/settings/private-files.js';

/** A file with more is not ours. */
const MAX_BYTES = 1024 * 1024;

const content = z.strictObject({ entrypoints: z.array(z.string().max(4096)).max(10_000) });

/**
 * The entrypoints that the last run of a client has compiled, so that the next one compiles them
 * before they are asked for. Only a help: a file that is missing, damaged or unwritable is no
 * failure.
 */
export class EntrypointFile {
  readonly #path: string | undefined;
  readonly #log: Logger;
  #written = '';

  /** `key`: what tells this client from others of the same user. */
  constructor(key: string, deps: { readonly env: Readonly<Record<string, string | undefined>>; readonly log: Logger }) {
    this.#log = deps.log;
    this.#path = pathOf(key, deps.env);
  }

  /** Reads the entrypoints, the least recently used first. */
  async read(): Promise<readonly string[]> {
    if (this.#path === undefined) return [];
    try {
      const text = (await readIfPresent(this.#path)) ?? '';
      if (text === '' || text.length > MAX_BYTES) return [];
      const found = content.safeParse(jsonOrUndefined(text));
      this.#written = text;
      return found.success ? found.data.entrypoints : [];
    } catch (error) {
      this.#log.debug({ error: errorText(error) }, 'the entrypoints of the last run cannot be read');
      return [];
    }
  }

  /** Writes them if they differ from what the file has. */
  async write(entrypoints: readonly string[]): Promise<void> {
    const text = `${JSON.stringify({ entrypoints })}\n`;
    if (this.#path === undefined || text === this.#written || entrypoints.length === 0) return;
    try {
      await makeFolder(dirname(this.#path));
      await replaceFile(this.#path, text);
      this.#written = text;
    } catch (error) {
      this.#log.debug({ error: errorText(error) }, 'the entrypoints of this run cannot be written');
    }
  }
}

/** Undefined if the environment names no cache folder. */
function pathOf(key: string, env: Readonly<Record<string, string | undefined>>): string | undefined {
  const name = createHash('sha256').update(key).digest('hex').slice(0, 16);
  try {
    return join(cacheFolder({ env, os: process.platform }), 'entrypoints', `${name}.json`);
  } catch {
    return undefined; // there is none
  }
}
