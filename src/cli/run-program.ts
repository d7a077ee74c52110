import { type Command, CommanderError } from 'commander';
import { ERROR_CODES, type ErrorCode, errorCode, errorText, isConfigurationError, SyncError } from '../lib/errors.js';
import { createLogger, type LogOptions, type ProgramLogger } from '../lib/log.js';
import { useCompileCache } from './compile-cache.js';

/** Exit codes of both programs; the last three are those of `status --fail-on`. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unhealthy: 3, behind: 4, away: 5 } as const;

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** A server or a client, as the programs run it. */
export interface Runnable {
  start(): Promise<{ url: string }>;
  stop(): Promise<void>;
  /** Rejects when it fails after a successful start. */
  ended?(): Promise<void>;
}

interface LogSettings {
  readonly logLevel: LogOptions['level'];
  readonly logFormat: 'auto' | LogOptions['format'];
}

/** A mistake in how a command was called; ends with exit code 2. */
export class UsageError extends SyncError {
  constructor(message: string) {
    super('usage_invalid', message);
  }
}

/** A failure with an exit code of its own. */
export class ExitError extends SyncError {
  readonly exitCode: number;

  constructor(code: ErrorCode, message: string, exitCode: number) {
    super(code, message);
    this.exitCode = exitCode;
  }
}

/** Printed after an error of the parser. */
export const USAGE_HINT = remedyLine('usage_invalid');

/**
 * Parses the arguments and runs the command that they name; answers the exit code. A failure is two lines on
 * standard error: what is wrong, and what to do about it, with the code of docs/errors.md. 2 for usage and configuration, 1 for the
 * rest.
 */
export async function runCommandLine(program: Command, argv: readonly string[]): Promise<number> {
  throwInsteadOfExit(program);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return EXIT.ok;
  } catch (error) {
    // Help, version and usage errors: already printed by the parser.
    if (!(error instanceof CommanderError)) console.error(failureText(program.name(), error));
    return failureCode(error);
  }
}

/**
 * Runs until SIGINT or SIGTERM, then stops and returns. A second signal ends the process at once. Rejects when the start
 * or the stop fails, or when the part cannot go on; then it is stopped too.
 */
export async function runUntilSignal(part: Runnable, log: ProgramLogger): Promise<void> {
  let onSignal: NodeJS.SignalsListener | undefined;
  const asked = new Promise<NodeJS.Signals>((resolve) => {
    let isAsked = false;
    onSignal = (signal) => {
      if (isAsked) {
        log.warn({ signal }, 'asked to stop again: ending at once');
        process.exit(EXIT.failed);
      }
      isAsked = true;
      resolve(signal);
    };
    for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
  });
  try {
    const started = part.start();
    const ended = started.then(async () => part.ended?.() ?? (await asked));
    try {
      const signal = await Promise.race([asked, ended]);
      log.info({ signal }, 'stopping');
    } finally {
      await part.stop();
    }
    // The stop may make the start fail.
    await started.catch((error: unknown) => log.debug({ err: error }, 'start was cut short'));
    log.info('stopped');
  } finally {
    if (onSignal !== undefined) for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
    // The reason of the end is printed after the log.
    log.flush();
  }
}

/**
 * Runs what `make` makes until it is asked to stop. `make` imports it first: the other commands start in half the time without it. A log
 * format of `auto` is `pretty` on a terminal.
 */
export async function runProgram(
  name: string,
  { values, unknown: names }: { values: LogSettings; unknown: readonly string[] },
  env: NodeJS.ProcessEnv,
  make: (log: ProgramLogger) => Promise<Runnable>,
): Promise<void> {
  const { logLevel: level, logFormat } = values;
  const format = logFormat === 'auto' ? (process.stderr.isTTY ? 'pretty' : 'json') : logFormat;
  const log = createLogger(name, { level, format });
  // Most often a typing error.
  const text = 'settings in the environment that mean nothing here; --help lists those that exist';
  if (names.length > 0) log.warn({ names }, text);
  useCompileCache(env);
  await runUntilSignal(await make(log), log);
}

/** The two lines that a command prints for a failure; `who`: the program. */
function failureText(who: string, error: unknown): string {
  return `${who}: ${errorText(error)}\n${remedyLine(errorCode(error))}`;
}

function remedyLine(code: ErrorCode): string {
  return `What to do: ${ERROR_CODES[code].remedy} [${code}]`;
}

function throwInsteadOfExit(command: Command): void {
  command.exitOverride();
  for (const child of command.commands) throwInsteadOfExit(child);
}

function failureCode(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof ExitError) return error.exitCode;
  return isConfigurationError(error) ? EXIT.usage : EXIT.failed;
}
