import { join } from 'node:path';
import * as z from 'zod';
import { failureFields } from '../../lib/errors.js';
import { MANY_JSON_VALUES, parseJson } from '../../lib/json/json.js';
import type { Logger } from '../../lib/observe/log.js';
import { readIfPresent, replaceFile } from '../../lib/settings/private-files.js';
import { type IdClaim, IdClaims } from './id-claims.js';
import type { StateFiles } from './state-files.js';

/** The owners of client ids, stored so that no id changes its subject on a restart. */
export interface KeptClaims {
  readonly claims: IdClaims;
  /** Writes pending changes; nothing is written afterwards. */
  close(): Promise<void>;
}

const FILE = 'client-ids.json';
/** Changes within this time are written together. */
const GATHER_MS = 1000;
/** When a file is written again that could not be written. */
const RETRY_MS = 10_000;

const fileSchema = z.object({
  version: z.literal(1),
  claims: z.array(z.object({ id: z.string(), subject: z.string(), sinceMs: z.number() })),
});

/** Reads the file and keeps it up to date. Logs failures and continues: only names are lost. */
export async function openClaims(
  { stateDir, memoryMs }: { stateDir: string; memoryMs: number },
  { log, files }: { log: Logger; files: StateFiles },
): Promise<KeptClaims> {
  const path = join(stateDir, FILE);
  const kept = await readClaims(path, log);
  let timer: NodeJS.Timeout | undefined;
  let writing = Promise.resolve();
  let isClosed = false;
  const claims = new IdClaims({ memoryMs, onChange }, kept);

  function onChange(): void {
    plan(GATHER_MS);
  }

  function plan(ms: number): void {
    if (timer !== undefined || isClosed) return;
    timer = setTimeout(write, ms).unref();
  }

  function write(): void {
    timer = undefined;
    const text = `${JSON.stringify({ version: 1, claims: claims.list(Date.now()) })}\n`;
    writing = writing.then(async () => {
      try {
        await replaceFile(path, text);
        files.wrote(FILE);
      } catch (error) {
        const isNews = files.failed(FILE, error);
        if (isNews) log.warn({ path, ...failureFields(error) }, 'cannot store the owners of client ids');
        plan(RETRY_MS);
      }
    });
  }

  return {
    claims,
    close: async () => {
      isClosed = true;
      if (timer !== undefined) {
        clearTimeout(timer);
        write();
      }
      await writing;
    },
  };
}

async function readClaims(path: string, log: Logger): Promise<readonly IdClaim[]> {
  try {
    const text = await readIfPresent(path);
    return text === undefined ? [] : fileSchema.parse(parseJson(text, { values: MANY_JSON_VALUES })).claims;
  } catch (error) {
    log.warn({ path, ...failureFields(error) }, 'cannot read the owners of client ids');
    return [];
  }
}
