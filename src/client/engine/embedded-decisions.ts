import type { EmbeddedOpa } from '../../embedded/embedded-opa.js';
import type { DecisionEngine } from './decision-engine.js';

/** Asks the engine inside the package. */
export function embeddedDecisions(opa: Pick<EmbeddedOpa, 'answer' | 'readsOf'>): DecisionEngine {
  return {
    decide: (question) => opa.answer(question),
    keepsContent: true,
    reads: (path) => opa.readsOf(path),
  };
}
