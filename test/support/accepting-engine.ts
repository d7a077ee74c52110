import type { PolicyEngine } from '../../src/client/engine/engine.js';

/** An engine that takes everything and holds nothing. */
export const ACCEPTING_ENGINE: PolicyEngine = {
  policyMode: 'modules',
  reserved: [],
  occupied: [],
  marker: { begin: async () => undefined, isThere: async () => true, complete: async () => undefined },
  roots: () => [],
  check: async () => undefined,
  activate: async () => undefined,
  isGuarded: true,
  tidy: async () => [],
  write: async () => undefined,
  read: async () => 'null',
  writeReserved: async () => undefined,
  startAfresh: () => undefined,
};
