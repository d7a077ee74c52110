import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { pipeline } from 'node:stream/promises';
import { SyncError } from '../../../lib/errors.js';
import { redactUrl } from '../../../lib/observe/log.js';
import { startTimer } from '../../../lib/run/async.js';
import { withPrivateFiles } from '../../../lib/settings/private-files.js';

/** Time for git to clean up (locks, temporary packs) before it is killed. */
const KILL_GRACE_MS = 2_000;
/** Characters of standard error to keep for the message. */
const STDERR_KEPT_CHARS = 4_096;
/** Default limit of the output. */
const DEFAULT_LIMIT_BYTES = 64 * 1024 * 1024;
/** Allowed transports; excludes `ext::` and other ways to run programs. */
const ALLOWED_PROTOCOLS = 'file:git:http:https:ssh';
/** Variables of a surrounding repository or session that would redirect our calls. */
const DROPPED_VARIABLES =
  /^GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|NAMESPACE|CEILING_DIRECTORIES|PREFIX|CONFIG|CONFIG_PARAMETERS|TRACE.*|CURL_VERBOSE|REPLACE_REF_BASE|SHALLOW_FILE|GRAFT_FILE)$/;

/**
 * The tree without files, which every repository with SHA-1 knows; another one takes what it does
 * not know for empty too.
 */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

/** What git says who it is, at one place. */
export interface GitCredentials {
  /** Scheme, host and port: no other place gets them, and git follows no redirect to one. */
  readonly origin: string;
  readonly username: string;
  readonly password: string;
}

/** Options of git calls. */
export interface GitCommandOptions {
  /** The repository of the calls. */
  gitDir: string;
  /** Base environment of the calls, with proxies and the user's git configuration. */
  env: NodeJS.ProcessEnv;
  /**
   * Configuration of each call, passed in the environment so that values do not show in process
   * lists.
   */
  config?: readonly (readonly [key: string, value: string])[];
  /** For a remote over http(s). */
  credentials?: GitCredentials | undefined;
  /** GIT_SSH_COMMAND. */
  sshCommand?: string | undefined;
  /** Texts that must not appear in error messages. */
  secrets?: readonly string[];
  /**
   * A repository of somebody else: git must not fetch what it lacks, since its configuration names
   * the programs for that.
   */
  isForeign?: boolean;
}

/** One call. */
export interface GitRun {
  timeoutMs: number;
  /** Stops git; the call rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Standard input. An error of the stream stops git and is rethrown. */
  input?: string | AsyncIterable<string | Uint8Array> | undefined;
  /** Called with the progress of git if its arguments include `--progress`. */
  onProgress?: ((text: string) => void) | undefined;
  /** The remote of a fetch with `--progress`, or of a request: it must not be silent for longer. */
  silence?: RemoteSilence | undefined;
  /** Maximum output; more fails. Default: 64 MiB. */
  limitBytes?: number | undefined;
  /** Returns the beginning of an output that is longer, instead of failing. */
  cuts?: boolean | undefined;
}

/**
 * How long a remote may be silent within a call: git prints nothing, neither a result nor progress.
 */
export interface RemoteSilence {
  readonly limitMs: number;
  /** Called with the longest silence of a remote that has sent all. */
  longest?(ms: number): void;
}

/** The git program for one repository. */
export interface GitCommand {
  /**
   * Runs git with these arguments, without a shell and without prompts, and returns its standard
   * output. Rejects with `git_failed` (its cause is a {@link GitExit} if git itself failed),
   * `git_timeout` or `git_silent`; in all cases the whole process group has ended when the promise
   * settles.
   */
  run(args: readonly string[], run: GitRun): Promise<Buffer>;
}

/** Git exited with a failure: the cause of a `git_failed`. */
export class GitExit extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'GitExit';
  }
}

/** Creates a {@link GitCommand}. */
export function createGitCommand(options: GitCommandOptions): GitCommand {
  const env = gitEnvironment(options);
  const rules: RemoteRules = {
    secrets: (options.secrets ?? []).filter((secret) => secret !== ''),
    origin: options.credentials?.origin,
  };
  return {
    run: async (args, run) => {
      run.signal?.throwIfAborted();
      const call = { name: `git ${args[0] ?? ''}`, env, rules, run };
      return await new GitProcess(['--git-dir', options.gitDir, ...args], call).output();
    },
  };
}

/** What git may show of a remote, and where it may be led. */
interface RemoteRules {
  readonly secrets: readonly string[];
  /** The only place of this remote. Undefined: wherever it leads. */
  readonly origin: string | undefined;
}

interface GitCall {
  /** For messages. */
  readonly name: string;
  readonly env: NodeJS.ProcessEnv;
  readonly rules: RemoteRules;
  readonly run: GitRun;
}

/**
 * Git asks it for user and password, which no process list shows. It is a line for a shell, as all
 * helpers are.
 */
const HELPER =
  '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$POLICYSYNC_GIT_USER" "$POLICYSYNC_GIT_PASSWORD"; }; f';

/**
 * Configuration that has git use these credentials at their origin and nowhere else, and ask nobody
 * else, unless they lack a password: helpers of the user may have that, and the program of
 * GIT_ASKPASS where the operator names one. Without both a user alone is a token. A header of ours
 * would be sent to wherever a redirect leads.
 */
function credentialConfig(
  { origin, username, password }: GitCredentials,
  asksOperator: boolean,
): (readonly [key: string, value: string])[] {
  return [
    // Without a value, those of the user are forgotten; they come first.
    password === '' ? [`credential.${origin}.username`, username] : ['credential.helper', ''],
    ...(asksOperator ? [] : [[`credential.${origin}.helper`, HELPER] as const]),
    ['credential.useHttpPath', 'false'],
    ['http.followRedirects', 'initial'],
  ];
}

/** The environment of each call. Our configuration comes last and overrides the user's. */
function gitEnvironment(options: GitCommandOptions): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(options.env)) if (!DROPPED_VARIABLES.test(name)) env[name] = value;
  env.LC_ALL = 'C';
  env.GIT_TERMINAL_PROMPT = '0';
  env.GIT_ALLOW_PROTOCOL = options.isForeign === true ? '' : ALLOWED_PROTOCOLS;
  env.GIT_NO_REPLACE_OBJECTS = '1';
  if (options.sshCommand !== undefined) env.GIT_SSH_COMMAND = options.sshCommand;
  const { credentials } = options;
  const asksOperator = credentials?.password === '' && (env.GIT_ASKPASS ?? '') !== '';
  if (credentials !== undefined) {
    if (!asksOperator) env.GIT_ASKPASS = ''; // and no other program
    env.POLICYSYNC_GIT_USER = credentials.username;
    env.POLICYSYNC_GIT_PASSWORD = credentials.password;
  }
  const config = [
    ['gc.auto', '0'],
    ['maintenance.auto', 'false'],
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    // Attributes decide what a diff shows: not those of a repository (a newer git reads them from a
    // bare one), nor of the user.
    ['core.attributesFile', '/dev/null'],
    ['attr.tree', EMPTY_TREE],
    ['safe.directory', options.gitDir],
    ...(credentials === undefined ? [] : credentialConfig(credentials, asksOperator)),
    ...(options.config ?? []),
  ] as const;
  const first = Number(env.GIT_CONFIG_COUNT ?? 0) || 0;
  for (const [index, [key, value]] of config.entries()) {
    env[`GIT_CONFIG_KEY_${first + index}`] = key;
    env[`GIT_CONFIG_VALUE_${first + index}`] = value;
  }
  env.GIT_CONFIG_COUNT = String(first + config.length);
  return env;
}

/** Why git is stopped once there is enough output. */
const CUT = Symbol('cut');

/** One call of git that is under way. */
class GitProcess {
  readonly #name: string;
  readonly #rules: RemoteRules;
  readonly #run: GitRun;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #remote: RemoteWatch;
  readonly #cleanUp: () => void;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #stderr = '';
  #stopped: { readonly reason: unknown } | undefined;
  #killTimer: NodeJS.Timeout | undefined;

  constructor(args: readonly string[], { name, env, rules, run }: GitCall) {
    this.#name = name;
    this.#rules = rules;
    this.#run = run;
    // In its own process group, so that the transport programs that git starts end with it. Its
    // files, a mirror of policy, are closed to other users.
    this.#child = withPrivateFiles(() => spawn('git', args, { env, detached: true, stdio: 'pipe' }));
    const { signal, timeoutMs } = run;
    const onAbort = (): void => this.#stop(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    const stopTimer = startTimer(timeoutMs, () => {
      this.#stop(this.#slow('git_timeout', ` did not finish within ${secondsOf(timeoutMs)}`));
    });
    this.#remote = new RemoteWatch(run.silence, (limitMs) => {
      this.#stop(this.#slow('git_silent', `: no progress from the remote for ${secondsOf(limitMs)}`));
    });
    this.#cleanUp = () => {
      stopTimer();
      this.#remote.end();
      clearTimeout(this.#killTimer);
      signal?.removeEventListener('abort', onAbort);
    };
  }

  /** Its standard output. Call it once, in the turn in which it was started. */
  output(): Promise<Buffer> {
    const child = this.#child;
    child.stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.#hear(text));
    this.#feed(this.#run.input ?? '');
    return new Promise((resolve, reject) => {
      child.on('error', (cause) => {
        this.#cleanUp();
        reject(spawnFailure(this.#name, cause));
      });
      child.on('close', (exitCode, exitSignal) => {
        this.#cleanUp();
        if (this.#stopped !== undefined) {
          killGroup(child, 'SIGKILL');
          if (this.#stopped.reason === CUT) resolve(Buffer.concat(this.#chunks));
          else reject(this.#stopped.reason);
        } else if (exitCode === 0) {
          this.#run.silence?.longest?.(this.#remote.longestMs);
          resolve(Buffer.concat(this.#chunks, this.#size));
        } else {
          const said = scrub(withoutProgress(this.#stderr), this.#rules.secrets);
          reject(exitFailure(this.#name, exitCode ?? exitSignal ?? 'unknown', said));
        }
      });
    });
  }

  #stop(reason: unknown): void {
    if (this.#stopped !== undefined) return;
    this.#stopped = { reason };
    const child = this.#child;
    killGroup(child, 'SIGTERM');
    this.#killTimer = setTimeout(() => {
      killGroup(child, 'SIGKILL');
      child.stdout.destroy();
      child.stderr.destroy();
    }, KILL_GRACE_MS);
  }

  #slow(code: 'git_timeout' | 'git_silent', why: string): SyncError {
    return new SyncError(code, `${this.#name}${why}`, { retryable: true });
  }

  #take(chunk: Buffer): void {
    const { limitBytes = DEFAULT_LIMIT_BYTES, cuts = false } = this.#run;
    this.#remote.heard();
    this.#size += chunk.length;
    const over = this.#size - limitBytes;
    if (over <= 0) this.#chunks.push(chunk);
    else if (cuts) {
      if (this.#stopped === undefined) this.#chunks.push(chunk.subarray(0, chunk.length - over));
      this.#stop(CUT);
    } else this.#stop(new SyncError('git_failed', `${this.#name} answered with more than ${limitBytes} bytes`));
  }

  #hear(text: string): void {
    const { origin } = this.#rules;
    const { onProgress } = this.#run;
    this.#stderr = (this.#stderr + text).slice(-STDERR_KEPT_CHARS);
    const place = origin === undefined ? undefined : ledElsewhere(this.#stderr, origin);
    if (origin !== undefined && place !== undefined) this.#stop(redirected(this.#name, origin, place));
    if (HAS_ALL.test(this.#stderr)) this.#remote.end();
    else this.#remote.heard();
    const progress = onProgress === undefined ? undefined : progressText(this.#stderr);
    if (progress !== undefined) onProgress?.(progress);
  }

  #feed(input: NonNullable<GitRun['input']>): void {
    const { stdin } = this.#child;
    // Git may exit before it has read all its input; the exit code tells why.
    stdin.on('error', () => undefined);
    if (typeof input === 'string') {
      stdin.end(input);
      return;
    }
    pipeline(input, stdin).catch((error: unknown) => {
      if (!isClosedPipe(error)) this.#stop(error);
    });
  }
}

/**
 * Git has all that the remote sends: what follows, as the check of it, is the work of this machine.
 */
const HAS_ALL = /(?:Receiving|Unpacking) objects: 100%|Resolving deltas:/;

/** Watches that a remote is not silent for longer than it may. */
class RemoteWatch {
  /** The longest silence so far, in milliseconds. */
  longestMs = 0;
  readonly #limitMs: number | undefined;
  readonly #onSilent: (limitMs: number) => void;
  #heardMs = performance.now();
  #stopTimer: (() => void) | undefined;
  #hasEnded = false;

  constructor(silence: RemoteSilence | undefined, onSilent: (limitMs: number) => void) {
    this.#limitMs = silence?.limitMs;
    this.#onSilent = onSilent;
    this.#arm();
  }

  heard(): void {
    if (this.#hasEnded) return;
    this.longestMs = Math.max(this.longestMs, performance.now() - this.#heardMs);
    this.#heardMs = performance.now();
    this.#arm();
  }

  /** Nothing more is due from the remote. */
  end(): void {
    this.heard();
    this.#hasEnded = true;
    this.#stopTimer?.();
  }

  #arm(): void {
    this.#stopTimer?.();
    const limitMs = this.#limitMs;
    if (limitMs !== undefined) this.#stopTimer = startTimer(limitMs, () => this.#onSilent(limitMs));
  }
}

/** `12.5 s`. */
function secondsOf(ms: number): string {
  return `${Math.round(ms / 100) / 10} s`;
}

/** Whether git stopped reading; errors of the input stream itself have other codes. */
function isClosedPipe(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'EPIPE' || code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE';
}

/** Signals git and everything that it started. */
function killGroup(child: ChildProcessWithoutNullStreams, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group has ended already.
  }
}

/** What helps against what git says. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [
    // Of the libraries of TLS.
    /SSL certificate problem|certificate verif|self[- ]signed/i,
    'name the authority of its certificate in a file that GIT_SSL_CAINFO names',
  ],
  // Git follows no redirect once it has said who it is.
  [/\bHTTP 30[12378]\b/, 'the repository has moved: give its new address in SYNC_POLICY_REPO_URL'],
  // On this machine or on another one.
  [
    /'\/[^']*' does not appear to be a git repository/,
    'a folder becomes a repository by `git init -b main`, `git add .` and `git commit` in it',
  ],
];

function spawnFailure(name: string, cause: NodeJS.ErrnoException): SyncError {
  const message = cause.code === 'ENOENT' ? 'git was not found on PATH; install git' : `${name} could not be started`;
  return new SyncError('git_failed', message, { cause, retryable: true });
}

function exitFailure(name: string, exit: number | string, stderr: string): SyncError {
  const said = gitSaid(stderr);
  const hint = HINTS.find(([pattern]) => pattern.test(said))?.[1];
  const message =
    said === '' ? `${name} ended with ${exit}` : `${name} failed: ${said}${hint === undefined ? '' : `; ${hint}`}`;
  const cause = typeof exit === 'number' ? new GitExit(said) : undefined;
  return new SyncError('git_failed', message, { cause, retryable: true });
}

/** What git adds to the failure of every transport, behind what the transport said. */
const BOILERPLATE: ReadonlySet<string> = new Set([
  'fatal: Could not read from remote repository.',
  'Please make sure you have the correct access rights',
  'and the repository exists.',
]);

/**
 * Returns standard error as one line, for a message: without what git says of every failure, unless
 * it said nothing else.
 */
export function gitSaid(stderr: string): string {
  const lines = stderr.split('\n').flatMap((line) => line.trim() || []);
  const telling = lines.filter((line) => !BOILERPLATE.has(line));
  return (telling.length === 0 ? lines.slice(0, 1) : telling).join('; ').replace(/\.$/, '');
}

/**
 * What git says, without secrets: those that are known, and those of any address that a remote
 * names.
 */
function scrub(text: string, secrets: readonly string[]): string {
  const scrubbed = secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  return scrubbed.replace(/https?:\/\/[^\s'"]+/g, (address) => (/[?@]/.test(address) ? redactUrl(address) : address));
}

/**
 * Git says where a redirect led it, or for which place it lacks a user: that of another origin is
 * returned. Pure.
 */
export function ledElsewhere(stderr: string, origin: string): string | undefined {
  for (const [, redirect, asked] of stderr.matchAll(LED)) {
    const place = redirect ?? asked ?? '';
    if (!URL.canParse(place) || new URL(place).origin !== origin) return redactUrl(place);
  }
  return undefined;
}

const LED = /^(?:warning: redirecting to (\S+)$|fatal: could not read (?:Username|Password) for '([^']+)')/gm;

function redirected(name: string, origin: string, place: string): SyncError {
  return new SyncError(
    'git_failed',
    `${name} is redirected to ${place}: user and password of SYNC_POLICY_REPO_URL are for ${origin} alone. If the repository has moved there, give its new address`,
    { retryable: true },
  );
}

/**
 * A line that `git fetch --progress` redraws:
 * `Receiving objects:  45% (450/1000), 3.20 MiB | 1.10 MiB/s`.
 */
const PROGRESS =
  /^(?:remote: )?((?:Enumerating|Counting|Compressing|Receiving|Resolving|Unpacking|Updating) [a-z]+): +((?:\d{1,3}% )?\(?\d[\w()/., |]*)/;

/** Maximum length of a progress text; much of it comes from the remote. */
const MAX_CHARS = 100;

/** Returns the last progress line in a chunk of standard error; undefined if there is none. */
export function progressText(stderr: string): string | undefined {
  for (const line of stderr.split(/[\r\n]+/).reverse()) {
    const [, what, amount] = PROGRESS.exec(line) ?? [];
    if (what !== undefined && amount !== undefined) return `${what}: ${amount.trim()}`.slice(0, MAX_CHARS);
  }
  return undefined;
}

/** Returns standard error without progress lines, for a message. */
export function withoutProgress(stderr: string): string {
  const lines = stderr.split(/[\r\n]+/);
  return lines.filter((line) => !PROGRESS.test(line)).join('\n');
}
