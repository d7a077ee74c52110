import { once } from 'node:events';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ErrorCode } from '../../../lib/errors.js';
import { askJson, PartEnded, valueAt, waitFor } from './ask.js';
import { ownProgram } from './own-command.js';
import type { Printer } from './print.js';
import { createProcesses, type DemoProcess, type Processes } from './processes.js';

/** Longest wait for anything: seconds on an idle machine. */
const WITHIN_MS = 60_000;
/** The code of a program that ends since its port is taken, as it prints it. */
const LISTEN_FAILED = '[listen_failed]' satisfies `[${ErrorCode}]`;
const LOG_LINES = 15;
/** Somebody else may take a port between our look and the program's start. */
const START_ATTEMPTS = 3;

/** A question to OPA. */
export type DemoQuestion = Readonly<Record<string, string>>;

/** What {@link Stage} is made with. */
export interface StageOptions {
  readonly print: Printer;
  readonly signal: AbortSignal;
  readonly env: NodeJS.ProcessEnv;
}

/** Everything that the demo starts and writes: one folder, its programs, their ports. */
export class Stage {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'policysync-demo-')));
  readonly processes: Processes;
  /** Server and client, once they run. */
  readonly parts: DemoProcess[] = [];
  readonly #options: StageOptions;
  /** How to end what was started, in the order of the starts. */
  readonly #stops: (() => Promise<void>)[] = [];
  readonly #ports = { server: 7002, client: 7000, engine: 8181 };

  constructor(options: StageOptions) {
    this.#options = options;
    mkdirSync(this.#tempDir);
    this.processes = createProcesses(this.folder, options.signal);
  }

  /** The folder of the policy repository. */
  get repo(): string {
    return join(this.folder, 'policy-repo');
  }

  get print(): Printer {
    return this.#options.print;
  }

  get signal(): AbortSignal {
    return this.#options.signal;
  }

  get env(): NodeJS.ProcessEnv {
    return this.#options.env;
  }

  url(name: 'server' | 'client' | 'engine'): string {
    return `http://127.0.0.1:${this.#ports[name]}`;
  }

  port(name: 'server' | 'client'): string {
    return String(this.#ports[name]);
  }

  /** Another port for the engine where somebody else listens at the usual one. */
  async chooseEnginePort(attempt: number): Promise<void> {
    this.#ports.engine = await choosePort(attempt === 1 ? this.#ports.engine : 0);
  }

  /** Has `stop` called at the end. */
  endLater(stop: () => Promise<void>): void {
    this.#stops.push(stop);
  }

  /**
   * Starts the server or the client and waits until it answers; on another port where somebody else
   * was quicker.
   */
  async start(
    name: 'server' | 'client',
    settings: (attempt: number) => Promise<Record<string, string>>,
  ): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      this.#ports[name] = await choosePort(attempt === 1 ? this.#ports[name] : 0);
      const env = this.childEnv(await settings(attempt));
      const part = this.processes.start(`sync-${name}`, [ownProgram(), name], env);
      this.endLater(() => part.stop());
      this.parts.push(part);
      const look = async (): Promise<true | undefined> =>
        (await askJson(this.url(name), this.signal)) === undefined ? undefined : true;
      const what = `An answer of the sync-${name} at ${this.url(name)}`;
      try {
        const answers = waitFor(look, { signal: this.signal, withinMs: WITHIN_MS, parts: [part], what });
        await this.print.working(`waiting for the sync-${name}`, answers);
        return;
      } catch (error) {
        if (!(error instanceof PartEnded) || !part.log().includes(LISTEN_FAILED) || attempt === START_ATTEMPTS)
          throw error;
        this.parts.pop();
      }
    }
  }

  /** Waits, as long as both programs run, until `look` answers something. */
  wait<T>(look: () => Promise<T | undefined>, what: string, everyMs = 50): Promise<T> {
    return waitFor(look, { signal: this.signal, withinMs: WITHIN_MS, parts: this.parts, what, everyMs });
  }

  /** What OPA answers to a question; undefined where it has no policy yet. */
  async decide(input: DemoQuestion): Promise<unknown> {
    return valueAt(await askJson(`${this.url('engine')}/v1/data/app/rbac/allow`, this.signal, { input }), 'result');
  }

  /**
   * Settings come from here alone, temporary files and caches go into our folder, and nothing local
   * goes through a proxy.
   */
  childEnv(settings: Record<string, string>): NodeJS.ProcessEnv {
    const given = Object.entries(this.env).filter(([name]) => !/^(SYNC|OPAL)_/.test(name));
    return {
      ...Object.fromEntries(given),
      ...{ TMPDIR: this.#tempDir, TEMP: this.#tempDir, TMP: this.#tempDir, XDG_CACHE_HOME: join(this.folder, 'cache') },
      ...{ NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost', NO_COLOR: '1' },
      SYNC_LOG_FORMAT: 'pretty',
      ...settings,
    };
  }

  /** Prints the last lines of server and client. */
  showLogs(): void {
    for (const part of this.parts) {
      this.print.title(`\nlast lines of the ${part.name}`);
      this.print.line(part.log().trimEnd().split('\n').slice(-LOG_LINES).join('\n'));
    }
  }

  /** Ends everything that was started, last first, and removes the folder. */
  async end(): Promise<void> {
    for (const stop of this.#stops.splice(0).reverse()) await stop();
    this.#removeFolder();
  }

  /** For a process that ends without {@link end}: what can be done without waiting. */
  abandon(): void {
    this.processes.abandon();
    this.#removeFolder();
  }

  get #tempDir(): string {
    return join(this.folder, 'tmp');
  }

  #removeFolder(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The wanted port of 127.0.0.1 where nothing listens there, else a free one. */
async function choosePort(wanted: number): Promise<number> {
  try {
    return await listenBriefly(wanted);
  } catch (error) {
    if (wanted === 0) throw error;
    return listenBriefly(0); // somebody listens there, or it needs rights that we do not have
  }
}

async function listenBriefly(port: number): Promise<number> {
  const server = createServer().listen({ port, host: '127.0.0.1', exclusive: true });
  await once(server, 'listening');
  const { port: taken } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return taken;
}
