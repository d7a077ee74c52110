import type { SessionReport } from '../../src/wire/session.js';

/** What a client reports beside its name and its position while all is well. */
export const WELL = {
  policy_hash: null,
  ready: true,
  healthy: true,
  engine: { kind: 'opa', version: null, online: true },
  failing: [],
  blocked: [],
  since: 0,
} satisfies Partial<SessionReport>;
