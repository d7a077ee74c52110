import { serverAddress } from '../../lib/net/server-address.js';
import { type Logger, redactUrl, type Secret } from '../../lib/observe/log.js';
import type { BackoffOptions } from '../../lib/run/async.js';
import { withOverrides } from '../../lib/run/with-overrides.js';
import type { FetcherConfig } from '../../wire/data.js';
import type { UpdateReport } from '../../wire/report.js';
import type { DataEvents } from '../status/data-events.js';
import {
  type CallbackConfig,
  CallbackRegistry,
  type CallbackTarget,
  completeConfig,
  DEFAULT_CALLBACK_CONFIG,
  readTarget,
  targetKey,
} from './callbacks.js';
import { ReportCollector } from './entry-outcomes.js';
import { policyReport } from './report.js';
import type { HashForm } from './report-hash.js';
import { ReportSender, type SenderCounts, type SenderDeps } from './sender.js';

/** The settings that reports depend on. */
export interface ReporterOptions {
  /** SYNC_SHOULD_REPORT_ON_DATA_UPDATES. */
  readonly reportUpdates: boolean;
  readonly reportFailedUpdates: boolean;
  readonly reportHashForm: HashForm;
  /** SYNC_DEFAULT_UPDATE_CALLBACKS; undefined: the server's own route. */
  readonly updateCallbacks: { readonly callbacks: readonly unknown[] } | undefined;
  readonly updateCallbackConfig: FetcherConfig | undefined;
  readonly serverUrl: string;
  readonly clientToken: Secret | undefined;
  readonly timeoutMs: number;
  readonly backoff: BackoffOptions;
}

/** State of the reports, for `GET /healthy`. */
export interface ReporterDetails extends SenderCounts {
  /** False: no report is sent. */
  readonly enabled: boolean;
  readonly registered: number;
}

/** Sends reports of applied policy and data to callbacks (specification event.update-report). */
export class Reporter {
  /** Callbacks of every update; the client API changes them, also while reports are off. */
  readonly registry: CallbackRegistry;
  /** Configuration of a callback that is only a URL. */
  readonly defaults: CallbackConfig;
  readonly #sender: ReportSender;
  readonly #log: Logger;
  readonly #enabled: boolean;
  /** Keys of the callbacks from the client's own settings; peers name all others. */
  readonly #configured: ReadonlySet<string>;

  constructor(options: ReporterOptions, deps: SenderDeps & { readonly events: DataEvents }) {
    const { updateCallbackConfig: config, serverUrl, timeoutMs, backoff } = options;
    this.#log = deps.log;
    this.#enabled = options.reportUpdates;
    this.defaults = config === undefined ? DEFAULT_CALLBACK_CONFIG : completeConfig(config);
    const configured = options.updateCallbacks?.callbacks ?? [
      serverAddress(serverUrl.replace(/^ws/i, 'http'), '/data/callback_report'),
    ];
    const targets = this.#targets(configured);
    this.#configured = new Set(targets.map(targetKey));
    this.registry = new CallbackRegistry(targets);
    // The method from the client's own settings is always allowed.
    const methodProblem = (method: string): string | undefined =>
      method === this.defaults.method.toUpperCase() ? undefined : deps.gate.methodProblem(method);
    this.#sender = new ReportSender(
      { timeoutMs, backoff, own: { url: serverUrl, token: options.clientToken } },
      { ...deps, gate: withOverrides(deps.gate, { methodProblem }) },
    );
    if (!this.#enabled) return;
    const collector = new ReportCollector(
      { hashForm: options.reportHashForm, failures: options.reportFailedUpdates },
      { onReport: (report, callbacks) => this.#tell(report, callbacks), log: deps.log },
    );
    deps.events.subscribe(collector.onData);
  }

  get details(): ReporterDetails {
    return { enabled: this.#enabled, registered: this.registry.all().length, ...this.#sender.counts };
  }

  /** Reports an applied policy. */
  policyApplied(hash: string): void {
    if (this.#enabled) this.#tell(policyReport(hash), []);
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#sender.run(signal);
  }

  close(): Promise<void> {
    return this.#sender.close();
  }

  /**
   * Sends a report to every registered callback and to the one-time callbacks of the update, once
   * where both name one.
   */
  #tell(report: UpdateReport, oneTime: readonly unknown[]): void {
    const targets = new Map<string, CallbackTarget>();
    for (const target of [...this.registry.all(), ...this.#targets(oneTime)]) targets.set(targetKey(target), target);
    const text = JSON.stringify(report);
    for (const [key, target] of targets) {
      this.#sender.send(target, text, report.update_id, this.#configured.has(key));
    }
  }

  #targets(items: readonly unknown[]): CallbackTarget[] {
    return items.flatMap((item) => {
      const target = readTarget(item, this.defaults);
      if (target !== undefined) return [target];
      const url: unknown = Array.isArray(item) ? item[0] : item;
      const shown = typeof url === 'string' ? redactUrl(url) : 'none';
      this.#log.warn({ url: shown }, 'a callback of an update cannot be called: only http and https URLs can');
      return [];
    });
  }
}
