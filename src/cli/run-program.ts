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

/** A usage error of a command: exit code 2. */
export class UsageError extends SyncError {
  constructor(message: string) {
    super('usage_invalid', message);
  }
}

/** A failure with a specific exit code. */
export class ExitError extends SyncError {
  readonly exitCode: number;

  constructor(code: ErrorCode, message: string, exitCode: number) {
    super(code, message);
    this.exitCode = exitCode;
  }
}

/** Printed after a parser error. */
export const USAGE_HINT = remedyLine('usage_invalid');

/**
 * Parses the arguments, runs their command, and returns the exit code: 2 for usage and configuration errors, 1 for other
 * failures. Prints a failure as two lines on standard error: the problem, and the remedy with the code of docs/errors.md.
 */
export async function runCommandLine(program: Command, argv: readonly string[]): Promise<number> {
  throwInsteadOfExit(program);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return EXIT.ok;
  } catch (error) {
    // The parser has already printed help, version and usage errors.
    if (!(error instanceof CommanderError)) console.error(failureText(program.name(), error));
    return failureCode(error);
  }
}

/**
 * Runs until SIGINT or SIGTERM, then stops and resolves. A second signal exits the process at once. Rejects if the start or the
 * stop fails, or if the part fails while running; then it is stopped too.
 */
export async function runUntilSignal(part: Runnable, log: ProgramLogger): Promise<void> {
  let onSignal: NodeJS.SignalsListener | undefined;
  const asked = new Promise<NodeJS.Signals>((resolve) => {
    let isAsked = false;
    onSignal = (signal) => {
      if (isAsked) {
        log.warn({ signal }, 'second stop signal: exiting at once');
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
    // A stop during the start makes the start fail.
    await started.catch((error: unknown) => log.debug({ err: error }, 'start was cut short'));
    log.info('stopped');
  } finally {
    if (onSignal !== undefined) for (const signal of STOP_SIGNALS) process.off(signal, onSignal);
    // The failure is printed after the log.
    log.flush();
  }
}

/**
 * Runs a server or a client until a stop signal. `make` imports it lazily: without it, the other commands start in half the time.
 * The log format `auto` means `pretty` on a terminal.
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
  const text = 'unknown settings in the environment; --help lists the known ones';
  if (names.length > 0) log.warn({ names }, text);
  useCompileCache(env);
  await runUntilSignal(await make(log), log);
}

/** Returns the two lines that a command prints for a failure; `who`: the program. */
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
