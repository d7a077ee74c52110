import * as z from 'zod';
import { checkJson, parseJson } from '../../lib/json.js';
import { jsonKind, members } from '../../lib/json-text.js';
import { STATIC_ERA } from '../desired/layers.js';
import type { Spool } from '../fetch/spool.js';
import type { BackupContent, BackupDocument } from './backup-format.js';

/** The modules in OPAL's backup file (opal-protocol P6.6), which has `data` beside them. */
const policies = z.record(z.string(), z.string());

/** Below static data: an OPAL backup mirrors everything in the engine, and all other sources take precedence. */
const OPAL_ERA = STATIC_ERA - 1;

/** The part of the tree that the engine reserves. */
const RESERVED = 'system';

/**
 * Reads a backup of an OPAL client. It has neither a commit nor log positions: its policy is served until the server's complete
 * bundle arrives, and its data stay, member by member, until something is written there (design D11: nothing is removed because
 * it is not listed). Adds spooled documents to `made`. Throws for any other file.
 */
export async function readOpalBackup(
  text: string,
  spool: Spool,
  made: BackupDocument[],
  signal: AbortSignal,
): Promise<BackupContent> {
  try {
    checkJson(text);
  } catch (cause) {
    throw new Error('it is not JSON', { cause });
  }
  const whole = jsonKind(text.trim()) === 'object' ? members(text.trim()) : new Map<string, string>();
  const dataText = whole.get('data') ?? '';
  const parsed = policies.safeParse(parseJson(whole.get('policies') ?? 'null'));
  if (!parsed.success || jsonKind(dataText) !== 'object')
    throw new Error('it is neither a backup of this program nor one of an OPAL client');
  const data = members(dataText);
  let index = 0;
  for (const [key, member] of data) {
    if (key === RESERVED) continue;
    const body = await spool.spool([Buffer.from(member)], signal);
    const rank = { era: OPAL_ERA, seq: 0, index: index++ };
    made.push({
      layer: { id: `opal-backup/${key}`, path: [key], rank, content: { kind: 'put', body } },
      blocked: undefined,
      entry: undefined,
    });
  }
  const modules = new Map(Object.entries(parsed.data));
  return {
    createdMs: 0,
    directories: [],
    scope: '',
    policy: modules.size === 0 ? undefined : { hash: '', modules, data: [] },
    position: { epoch: undefined, era: 1, next: 1, lastSeq: 0, seen: new Map() },
    documents: made,
  };
}
