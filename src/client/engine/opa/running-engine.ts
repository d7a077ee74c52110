import type { EmbeddedOpa } from '../../../embedded/embedded-opa.js';
import type { Endpoint, OutgoingTls } from '../../../lib/net/tls.js';
import type { Logger } from '../../../lib/observe/log.js';
import type { DocPath } from '../../../wire/doc-path.js';
import type { OutboundGate } from '../../outbound/gate.js';
import type { OutboundConnections } from '../../outbound/outbound.js';
import type { EngineChoice } from '../choose-engine.js';
import type { DecisionEngine } from '../decision-engine.js';
import type { PolicyEngine } from '../engine.js';
import type { EngineKind } from '../engine-kind.js';
import type { RegoCounts, RegoMode } from '../modules/rego-versions.js';
import type { EngineAccessKind } from './opa-authz.js';

/** An engine and the process that runs it. */
export interface RunningEngine {
  readonly kind: EngineKind;
  readonly engine: PolicyEngine;
  /** Answers questions. */
  readonly decisions: DecisionEngine;
  /** Who may use the engine, and how. */
  readonly access: EngineAccessKind;
  /** Version of OPA; undefined until it is found, and for an external engine. */
  version(): string | undefined;
  /**
   * The Rego versions of the modules in the engine; undefined before the first ones, and for an
   * external engine.
   */
  rego(): ({ readonly mode: RegoMode } & RegoCounts) | undefined;
  /** Progress of finding or downloading the OPA program, as text; undefined once there is one. */
  getting(): string | undefined;
  /**
   * Runs the engine until the signal aborts, once there is an OPA program. Calls `onStarted` when
   * it responds, still empty, and `onGone` when it ends. Rejects if it cannot be found or started
   * at all.
   */
  run(listen: { onStarted(): void; onGone(reason: string): void }, signal: AbortSignal): Promise<void>;
  /** Addresses of the engine, and of its bundle server, other than SYNC_POLICY_STORE_URL. */
  readonly listeners: readonly { readonly what: string; readonly place: Endpoint }[];
  /** The engine itself, if it is an embedded one. */
  readonly embedded?: EmbeddedOpa;
  /** Process id of the inline engine while it runs. */
  pid(): number | undefined;
  close(): Promise<void>;
}

/** An OPA process, which is asked over REST. */
export type RunningOpa = Omit<RunningEngine, 'decisions'>;

/** What an engine is created with. */
export interface CreateEngineDeps {
  readonly log: Logger;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly choice: EngineChoice;
  /** Whether an embedded engine listens at SYNC_POLICY_STORE_URL, where an inline one would. */
  readonly listens: boolean;
  /** Documents that the client reserves in the engine, in addition to its marker. */
  readonly reserved: readonly DocPath[];
  /** Timeout of a question to an OPA over REST. Default: SYNC_POLICY_STORE_TIMEOUT. */
  readonly decisionTimeoutMs?: number | undefined;
  /** Where `http.send` of an embedded engine may go. */
  readonly outbound?: Pick<OutboundConnections, 'dispatcher'>;
  readonly gate?: OutboundGate;
  /** TLS for the OAuth server of the engine. Default: the well-known authorities. */
  readonly outgoing?: OutgoingTls;
}
