import { existsSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { constants } from 'node:os';
import { join } from 'node:path';
import { type Command, CommanderError } from 'commander';
import {
  ERROR_CODES,
  type ErrorCode,
  errorCode,
  errorText,
  isConfigurationError,
  SyncError,
} from '../../lib/errors.js';
import { linesWithoutControls } from '../../lib/json/control-characters.js';
import { createLogger, type LogOptions, logLevelsOf, type ProgramLogger } from '../../lib/observe/log.js';
import { firstOf } from '../../lib/run/async.js';
import { cacheFolder } from '../../lib/run/cache-folder.js';
import { CONFIG_VARIABLE } from '../../settings.js';
import { type CommandIo, printLine } from './command-io.js';
import { endAtOnce } from './end-program.js';
import { hideUnknownValues, hintAtOrder } from './unknown-option.js';

/** Exit codes of all programs; the last four are those of `status --fail-on`. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unhealthy: 3, behind: 4, away: 5, incomplete: 6 } as const;

/** What each means, for docs/reference/commands.md. */
export const EXIT_MEANING: Readonly<Record<keyof typeof EXIT, string>> = {
  ok: 'The command succeeded, or the program was stopped by SIGINT or SIGTERM.',
  failed:
    'Any other failure; `check` and `doctor`: at least one finding is an error. A supervisor may start the program again.',
  usage:
    'Only other arguments or settings help: each that is wrong is named. It needs a person. `init`: somebody cancelled it at a question.',
  unhealthy:
    '`status --fail-on unhealthy`: a client is not healthy or not ready, its engine does not answer, the policy source fails, or the update log takes no updates.',
  behind: '`status --fail-on behind`: a connected client lacks a commit or an update.',
  away: '`status --fail-on away`: a client is away; of `status client`: it is not connected to its server, or that is cut off. `publish --wait`: all that are connected have applied the update, and a client that is away does not have it.',
  incomplete:
    '`status --fail-on`: no client that is known meets a condition, and there may be others, as the output says with the reason.',
};

/**
 * What the exit code of a signal means, for docs/reference/commands.md: of commands that do not end
 * with 0 when they are stopped.
 */
export const SIGNAL_MEANING: Readonly<Partial<Record<NodeJS.Signals, string>>> = {
  SIGINT: 'Ctrl-C (SIGINT) stopped `opa get`, or a signal stopped `demo` before its last decision.',
  SIGTERM: 'SIGTERM stopped `opa get`.',
};

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** A server or a client, as the programs run it. */
export interface Runnable {
  start(): Promise<{ url: string }>;
  /** Prepares a stop that nobody notices. */
  drain?(): Promise<void>;
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
  /** All is said already: nothing is printed. */
  readonly isQuiet: boolean;

  constructor(code: ErrorCode, message: string, exitCode: number, { isQuiet = false }: { isQuiet?: boolean } = {}) {
    super(code, message);
    this.exitCode = exitCode;
    this.isQuiet = isQuiet;
  }
}

/** Printed after a parser error. */
export const USAGE_HINT = remedyLine('usage_invalid');

/** Commands that end with 1 by a usage error, too: container runtimes reserve 2. */
const WITHOUT_USAGE_CODE: ReadonlySet<string> = new Set(['healthcheck']);

/**
 * Parses the arguments, runs their command, and returns the exit code: 2 for usage and
 * configuration errors, 1 for other failures. Prints a failure as two lines on standard error: the
 * problem, and the remedy with the code of docs/reference/errors.md; and below them, as below a
 * diagnosis, that a configuration file was not read.
 */
export async function runCommandLine(program: Command, argv: readonly string[], io: CommandIo): Promise<number> {
  throwInsteadOfExit(program);
  hintAtOrder(program);
  hideUnknownValues(program);
  let called = program;
  const note = (_: Command, command: Command): void => {
    called = command;
  };
  program.hook('preSubcommand', note).hook('preAction', note);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    if (called.name() === 'doctor') hintAtConfig(called, io);
    return EXIT.ok;
  } catch (error) {
    const code = failureCode(error);
    // The parser has already printed help, version and usage errors.
    if (!(error instanceof CommanderError)) {
      if (!(error instanceof ExitError && error.isQuiet)) printLine(io.stderr, failureText(program.name(), error));
      if (code <= EXIT.incomplete) hintAtConfig(called, io);
    }
    return code === EXIT.usage && WITHOUT_USAGE_CODE.has(called.name()) ? EXIT.failed : code;
  }
}

function hintAtConfig(command: Command, { env, stderr }: CommandIo): void {
  const hint = unreadConfig(command, env);
  if (hint !== undefined) printLine(stderr, `note: ${hint}`);
}

/** The exit code of a command that a signal ended: 128 and its number, as of shells. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/**
 * Runs until SIGINT or SIGTERM, then stops and resolves. SIGTERM drains first; SIGINT does not: a
 * person waits. A second signal exits the process at once. Rejects if the start or the stop fails,
 * or if the part fails while running; then it is stopped too.
 */
export async function runUntilSignal(part: Runnable, log: ProgramLogger): Promise<void> {
  let onSignal: NodeJS.SignalsListener | undefined;
  const asked = new Promise<NodeJS.Signals>((resolve) => {
    let isAsked = false;
    onSignal = (signal) => {
      if (isAsked) {
        log.warn({ signal }, 'second stop signal: exiting at once');
        endAtOnce(EXIT.failed);
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
      const signal = await firstOf([asked, ended]);
      log.info({ signal }, 'stopping');
      // A part that fails meanwhile ends the drain, and its failure is the result.
      const failing = part.ended === undefined ? [] : [part.ended()];
      if (signal === 'SIGTERM') await firstOf([part.drain?.(), ...failing]);
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
 * Runs a server or a client until a stop signal. `make` imports it lazily: without it, the other
 * commands start in half the time. The log format `auto` means `pretty` on a terminal.
 */
export async function runProgram(
  name: string,
  {
    values,
    unknown: names,
    warnings,
  }: { values: LogSettings; unknown: readonly string[]; warnings: readonly string[] },
  { env, stderr }: CommandIo,
  make: (log: ProgramLogger) => Promise<Runnable>,
): Promise<void> {
  const { logLevel: level, logFormat } = values;
  const format = logFormat === 'auto' ? (stderr.isTTY === true ? 'pretty' : 'json') : logFormat;
  const log = createLogger(name, { level, format });
  const text = 'unknown settings in the environment; --help-all lists the known ones';
  if (names.length > 0) log.warn({ names }, text);
  for (const warning of warnings) log.warn(warning);
  useCompileCache(env);
  const stopToggling = toggleDebugOnSignal(log);
  try {
    await runUntilSignal(await make(log), log);
  } finally {
    stopToggling();
  }
}

/**
 * SIGUSR2 turns debug lines on, and off again, for an operator who is at the process; returns how
 * that ends. Windows has no such signal.
 */
function toggleDebugOnSignal(log: ProgramLogger): () => void {
  if (process.platform === 'win32') return () => undefined;
  const onSignal = (): void => {
    const to = logLevelsOf(log)?.toggleDebug();
    log.warn({ to }, 'the level of the log is changed by SIGUSR2');
  };
  process.on('SIGUSR2', onSignal);
  return () => process.off('SIGUSR2', onSignal);
}

/** Returns the two lines that a command prints for a failure; `who`: the program. */
function failureText(who: string, error: unknown): string {
  // A server, git or a file may have said it.
  const text = linesWithoutControls(errorText(error));
  return `${who}: ${text}\n${remedyLine(errorCode(error))}`;
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

/** Node has this from 22.1 on; its types here do not declare it. */
type EnableCompileCache = (folder: string) => unknown;

/**
 * Caches V8's compiled code of modules loaded from now on in the user's cache folder, if Node
 * supports it: saves a tenth of the start time. Node's default, the temporary folder, could contain
 * files of another user. Never throws.
 */
export function useCompileCache(env: Readonly<Record<string, string | undefined>>): void {
  const { enableCompileCache } = nodeModule as { readonly enableCompileCache?: EnableCompileCache };
  if (enableCompileCache === undefined) return;
  let folder: string;
  try {
    folder = join(cacheFolder({ env, os: process.platform }), 'compile-cache');
  } catch {
    return; // a user without a cache folder
  }
  enableCompileCache(folder);
}

/** The name that `init` gives the configuration file. */
const FILE = 'policysync.yaml';

/**
 * What to tell of a configuration file in the working directory that a command with `--config` did
 * not read; undefined: nothing.
 */
function unreadConfig(command: Command, env: NodeJS.ProcessEnv): string | undefined {
  const takesFile = command.options.some(({ long }) => long === '--config');
  const isNamed = command.optsWithGlobals<{ config?: string }>().config !== undefined;
  if (!takesFile || isNamed || (env[CONFIG_VARIABLE] ?? '') !== '' || !existsSync(FILE)) return undefined;
  return `${FILE} in this folder was not read: --config ${FILE} names it`;
}
