import type { EmbeddedOpa } from '../../embedded/embedded-opa.js';
import { GoRefusal } from '../../embedded/types.js';
import { SyncError } from '../../lib/errors.js';
import type { DecisionEngine } from './decision-engine.js';

/** Asks an engine in this process. */
export function embeddedDecisions(opa: Pick<EmbeddedOpa, 'decide' | 'readsOf'>): DecisionEngine {
  return {
    async decide(question) {
      try {
        return await opa.decide(question);
      } catch (error) {
        if (!(error instanceof GoRefusal)) throw error;
        throw new SyncError('decision_failed', `the policy engine could not decide: ${error.message}`, {
          cause: error,
        });
      }
    },
    reads: (path) => opa.readsOf(path),
  };
}
