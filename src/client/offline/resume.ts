import type { PolicyEngine } from '../engine/engine.js';
import type { Applier } from '../reconcile/applier.js';
import type { EngineKeeper } from '../reconcile/engine-keeper.js';
import { loadableContent, sealOf } from './backup-content.js';
import type { BackupContent } from './backup-format.js';

/** What resuming works with. */
export interface ResumeDeps {
  readonly engine: Pick<PolicyEngine, 'seals'>;
  readonly keeper: EngineKeeper;
  readonly applier: Applier;
}

/**
 * Goes on with an engine that another life of this client left (design D23): if its seal is that of the backup, it holds
 * exactly that, and nothing is written. True: so it is. Throws what the engine throws, and when the content does not fit
 * the settings of this client.
 */
export function resumeFrom(
  content: BackupContent,
  { engine: { seals }, keeper, applier }: ResumeDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const seal = sealOf(content);
  if (seals === undefined || seal === undefined) return Promise.resolve(false);
  return keeper.resume(async () => {
    const loadable = loadableContent(content);
    if (!(await seals.claim(seal, signal))) return false;
    applier.adopt(loadable);
    return true;
  });
}
