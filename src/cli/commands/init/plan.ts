import { lookup } from 'node:dns/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { errorText, SyncError } from '../../../lib/errors.js';
import { redactUrl } from '../../../lib/observe/log.js';
import { withoutEnd } from '../../../lib/run/without-end.js';
import { expandHome } from '../../../lib/settings/home-path.js';
import { DURATION_FORMS, parseDuration } from '../../kit/durations.js';
import { UsageError } from '../../kit/run-program.js';

/**
 * `local`: all on this machine, without authentication. `network`: keys, tokens, listens on all
 * interfaces.
 */
export const MODES = ['local', 'network'] as const;
export type Mode = (typeof MODES)[number];

/**
 * `none`: plain HTTP, or TLS that is set up later. `trial`: an authority and a certificate for a
 * year.
 */
export const TLS_CHOICES = ['none', 'trial'] as const;
export type TlsChoice = (typeof TLS_CHOICES)[number];

/** What runs the programs: more files for it. */
export const TARGETS = ['compose', 'kubernetes', 'systemd'] as const;
export type DeployTarget = (typeof TARGETS)[number];

/** As of tokens that a server issues. */
const MAX_TTL_SECONDS = 3660 * 86_400;

/** Maximum branches in a message. */
const BRANCHES_NAMED = 20;
/** Of a repository that does not answer. */
const NO_BRANCHES: Branches = { head: undefined, branches: [] };

/** All that `init` needs to know. */
export interface Plan {
  readonly mode: Mode;
  /** A git URL, or the absolute path of a repository on this machine. */
  readonly repository: string;
  readonly branch: string;
  readonly sshKey: string | undefined;
  /** The name by which clients reach the server. */
  readonly serverName: string;
  readonly port: number;
  readonly clientPort: number;
  readonly enginePort: number;
  readonly tls: TlsChoice;
  readonly targets: readonly DeployTarget[];
  /** The registry of the images, without a slash at its end; undefined: it is not known. */
  readonly registry: string | undefined;
  /** Lifetime of the tokens. */
  readonly tokenSeconds: number;
  /** What is probably wrong, each with what to do. */
  readonly warnings: readonly string[];
}

/** Options of the command, as they are given. */
export interface InitOptions {
  readonly repository?: string;
  readonly branch?: string;
  readonly mode?: Mode;
  readonly sshKey?: string;
  readonly serverName?: string;
  readonly port: string;
  readonly clientPort: string;
  readonly enginePort: string;
  readonly tls?: TlsChoice;
  readonly tokenTtl: string;
  readonly compose?: true;
  readonly kubernetes?: true;
  readonly systemd?: true;
  readonly registry?: string;
  readonly yes?: true;
  readonly force?: true;
  readonly json?: true;
}

/** Answers to what the options leave open. */
export interface Asker {
  /** `problem`: what is wrong with the answer before. */
  repository(problem: string | undefined): Promise<string>;
  mode(): Promise<Mode>;
  /** `head`: the branch that the repository's HEAD names; `branches`: all of them. */
  branch(head: string | undefined, branches: readonly string[]): Promise<string>;
  tls(): Promise<TlsChoice>;
  targets(): Promise<readonly DeployTarget[]>;
  /** Empty: it is not known. */
  registry(): Promise<string>;
}

/** The branches of a repository; `head`: the one that HEAD names. */
export interface Branches {
  readonly head: string | undefined;
  readonly branches: readonly string[];
}

/** Returns the branches of a repository. Rejects with a `SyncError` where it does not answer. */
export type LookUpBranches = (question: { repository: string; sshKey: string | undefined }) => Promise<Branches>;

/**
 * Completes the options: by questions where there is an asker, otherwise by defaults. Throws
 * {@link UsageError}.
 */
export async function makePlan(options: InitOptions, asker: Asker | undefined, lookUp: LookUpBranches): Promise<Plan> {
  const ports = {
    port: portOf('--port', options.port),
    clientPort: portOf('--client-port', options.clientPort),
    enginePort: portOf('--engine-port', options.enginePort),
  };
  const tokenSeconds = ttlOf(options.tokenTtl);
  const sshKey = options.sshKey === undefined ? undefined : resolve(expandHome(options.sshKey));
  const { repository, found, warnings } = await findRepository(options, sshKey, asker, lookUp);
  const mode = options.mode ?? (await asker?.mode()) ?? 'local';
  if (mode === 'local' && options.tls === 'trial') throw new UsageError('--tls trial is for --mode network');
  const branch = options.branch ?? (await chooseBranch(repository, found, asker));
  const tls = mode === 'local' ? 'none' : (options.tls ?? (await asker?.tls()) ?? 'none');
  const given = TARGETS.filter((target) => options[target] === true);
  const targets = given.length > 0 ? given : ((await asker?.targets()) ?? []);
  const hasImages = targets.includes('compose') || targets.includes('kubernetes');
  const registry = registryOf(options.registry ?? (hasImages ? await asker?.registry() : undefined));
  const serverName = options.serverName ?? (mode === 'local' ? 'localhost' : await ownName());
  return { mode, repository, branch, sshKey, serverName, ...ports, tls, targets, registry, tokenSeconds, warnings };
}

/** The options that must be given where nobody can be asked. */
export function missingOptions({ repository, mode, yes }: InitOptions): string[] {
  return [
    ...(repository === undefined ? ['--repository <git-url>'] : []),
    ...(mode === undefined && yes !== true ? ['--mode local or --mode network (or --yes for local)'] : []),
  ];
}

/** A repository that was looked up before anything else is asked. */
interface FoundRepository {
  readonly repository: string;
  readonly found: Branches;
  readonly warnings: readonly string[];
}

/** Looks up the repository; asks again for one that does not answer, where it was asked for. */
async function findRepository(
  options: InitOptions,
  sshKey: string | undefined,
  asker: Asker | undefined,
  lookUp: LookUpBranches,
): Promise<FoundRepository> {
  const isAsked = options.repository === undefined && asker !== undefined;
  for (let problem: string | undefined; ; ) {
    const repository = repositoryOf(isAsked ? await asker.repository(problem) : options.repository);
    try {
      const found = await lookUp({ repository, sshKey });
      return { repository, found, warnings: branchWarnings(options.branch, redactUrl(repository), found) };
    } catch (error) {
      if (!(error instanceof SyncError) || (error.code === 'config_invalid' && !isAsked)) throw error;
      if (isAsked) problem = errorText(error);
      else if (options.branch === undefined) throw error;
      // Elsewhere it may answer: nothing depends on it here.
      else
        return { repository, found: NO_BRANCHES, warnings: [`${errorText(error)}; \`doctor server\` asks it again.`] };
    }
  }
}

/** What is wrong with a branch that somebody gives. */
function branchWarnings(branch: string | undefined, repository: string, { head, branches }: Branches): string[] {
  if (branch === undefined || branches.includes(branch)) return [];
  const remedy =
    branches.length === 0 ? `push a commit to branch ${branch}` : `push it, or give --branch ${head ?? branches[0]}`;
  return [`branch ${branch} does not exist in ${repository}, ${knownBranches(branches)}: ${remedy}.`];
}

function knownBranches(branches: readonly string[]): string {
  const more = branches.length > BRANCHES_NAMED ? `, and ${branches.length - BRANCHES_NAMED} more` : '';
  return branches.length === 0
    ? 'it has no branches yet'
    : `it has ${branches.slice(0, BRANCHES_NAMED).join(', ')}${more}`;
}

async function chooseBranch(
  repository: string,
  { head, branches }: Branches,
  asker: Asker | undefined,
): Promise<string> {
  if (asker !== undefined) return asker.branch(head, branches);
  const [only] = branches;
  const branch = head ?? (branches.length === 1 ? only : undefined);
  if (branch !== undefined) return branch;
  throw new UsageError(`HEAD of ${redactUrl(repository)} names no branch (${knownBranches(branches)}): give --branch`);
}

/** The host of a registry, with a port and folders where it has them. */
function registryOf(text: string | undefined): string | undefined {
  const registry = withoutEnd(text?.trim() ?? '', '/');
  if (registry === '') return undefined;
  if (/^[a-z0-9.-]+(?::\d+)?(?:\/[a-z0-9._-]+)*$/.test(registry)) return registry;
  throw new UsageError(`--registry must be a host, such as registry.example or registry.example/team (is "${text}")`);
}

/** A path of this machine becomes absolute; addresses stay. */
function repositoryOf(text: string | undefined): string {
  const given = text?.trim() ?? '';
  if (given === '') throw new UsageError('give the repository of your policies: --repository <git-url>');
  return isAddress(given) ? given : resolve(expandHome(given));
}

/** Whether a text is a URL or `user@host:path`, not a path. */
export function isAddress(repository: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(repository) || /^[^/:]+:/.test(repository);
}

/** The name of this machine if it resolves, so that a client here reaches the server by it, too. */
async function ownName(): Promise<string> {
  return lookup(hostname()).then(
    () => hostname(),
    () => 'localhost',
  );
}

function ttlOf(text: string): number {
  const seconds = parseDuration(text);
  if (seconds !== undefined && seconds >= 1 && seconds <= MAX_TTL_SECONDS) return seconds;
  throw new UsageError(`--token-ttl must be a duration of at most 10 years: ${DURATION_FORMS} (is "${text}")`);
}

function portOf(flag: string, text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw new UsageError(`${flag} must be a port from 1 to 65535 (is "${text}")`);
}
