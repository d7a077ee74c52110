import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { Secret } from '../../../lib/observe/log.js';
import { childEnv } from '../../../lib/run/child-env.js';
import { packageFolder } from '../../../lib/run/version.js';
import { SERVER_SETTINGS } from '../../../server/options.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { UsageError } from '../../kit/run-program.js';
import { ownCommand } from '../demo/own-command.js';
import { calledAs, isInNpxCache } from './called-as.js';
import {
  type InitOptions,
  isAddress,
  type LookUpBranches,
  MODES,
  makePlan,
  missingOptions,
  type Plan,
  TLS_CHOICES,
} from './plan.js';

const GIT_TIMEOUT_MS = 30_000;

/** Adds `policysync init`: writes configuration, keys and tokens, and says what to run. */
export function addInitCommand(program: Command, io: CommandIo): void {
  const port = ({ defaultText = '' }: { readonly defaultText: string | undefined }): string => defaultText;
  program
    .command('init')
    .description(
      'Set up server and client: write their settings, keys and tokens, and say what to run. Asks for what no option says.',
    )
    .argument('[folder]', 'where to write', '.')
    .option('--repository <git-url>', 'git repository of the policies: a URL, or a path on this machine')
    .option('--branch <branch>', "branch to follow (default: that of the repository's HEAD)")
    .addOption(
      new Option('--mode <mode>', 'local: all on this machine, without keys. network: with keys and tokens').choices(
        MODES,
      ),
    )
    .option('--ssh-key <file>', 'private key for a repository over ssh')
    .option('--server-name <name>', 'name by which clients reach the server (default: this host, or localhost)')
    .option('--port <port>', 'port of the server', port(SERVER_SETTINGS.port))
    .option('--client-port <port>', 'port of the client API', port(CLIENT_SETTINGS.port))
    .option('--engine-port <port>', 'port of the policy engine', '8181')
    .addOption(
      new Option('--tls <how>', 'trial: make an authority and a certificate with openssl').choices(TLS_CHOICES),
    )
    .option('--token-ttl <duration>', 'lifetime of the tokens, for example 30d', '365d')
    .option('--compose', 'write a Compose file, too')
    .option('--kubernetes', 'write values for the Helm chart and a Secret, too')
    .option(
      '--registry <host>',
      'registry that has the images of --compose and --kubernetes, for example registry.example',
    )
    .option('--systemd', 'write systemd units, too')
    .option('--yes', 'ask nothing: what no option says has its default')
    .option(
      '--force',
      'replace files that are there, and keep them in a folder beside: tokens of older keys are then no longer valid',
    )
    .option('--json', 'print what was written, and the commands that follow, as JSON')
    .action((folder: string, options: InitOptions) => init(folder, options, io));
}

async function init(folder: string, options: InitOptions, { env, stdin, stdout }: CommandIo): Promise<void> {
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true;
  const missing = missingOptions(options);
  const asks = isTerminal && options.yes !== true && options.json !== true;
  if (missing.length > 0 && !asks) {
    throw new UsageError(`nobody can be asked here: give ${missing.join(' and ')}`);
  }
  // On a terminal the rest is asked for only where somebody is asked already.
  const asker = missing.length > 0 ? await (await import('./questions.js')).terminalAsker() : undefined;
  const plan = await makePlan(options, asker, lookUpBy(env));
  const { makeFiles } = await import('./make-files.js');
  const files = await makeFiles(plan, { env, schema: schemaFor(resolve(folder)) });
  const { writeFiles } = await import('./files.js');
  const replaced = await writeFiles(folder, files, { force: options.force === true });
  const { nextCommands, reportLines } = await import('./report.js');
  const own = () => ownCommand(env);
  const called = calledAs({ env, folder: resolve(folder), packageFolder: packageFolder(), own });
  const warnings = [...plan.warnings, ...(plan.targets.includes('systemd') ? unitWarnings(unitNeeds(plan)) : [])];
  if (options.json === true) {
    const listed = files.map(({ path, about }) => ({ path, ...(about !== undefined && { about }) }));
    const made = {
      folder: resolve(folder),
      files: listed,
      commands: nextCommands(called),
      warnings,
      replaced: replaced ?? null,
    };
    printLine(stdout, JSON.stringify(made, null, 2));
  } else printLine(stdout, reportLines({ plan, folder, files, replaced, program: called, warnings }).join('\n'));
}

function unitNeeds({ repository }: Plan): UnitNeeds {
  return { node: process.execPath, packageFolder: packageFolder(), repository };
}

/** Asks the repository as the server will. */
function lookUpBy(env: NodeJS.ProcessEnv): LookUpBranches {
  return async ({ repository, sshKey }) => {
    const { remoteBranches } = await import('../../../server/policy/source/remote-branches.js');
    const keyFolder = await mkdtemp(join(tmpdir(), 'policysync-init-'));
    try {
      const question = {
        ...{ url: repository, keyFolder, timeoutMs: GIT_TIMEOUT_MS },
        sshKey: sshKey === undefined ? undefined : new Secret(sshKey),
        env: childEnv(env, 'git'),
      };
      const { head, commits } = await remoteBranches(question, new AbortController().signal);
      return { head, branches: [...commits.keys()] };
    } finally {
      await rm(keyFolder, { recursive: true, force: true });
    }
  };
}

/**
 * Where an editor finds the schema of the configuration file: by a relative path where the package
 * is in the folder, and nowhere where npm may remove the package at any time.
 */
function schemaFor(folder: string): string | undefined {
  if (isInNpxCache(packageFolder())) return undefined;
  const schema = join(packageFolder(), 'schema', 'policysync.schema.json');
  const path = relative(folder, schema);
  return path.startsWith('..') ? schema : path;
}

/** What the units do not see (`ProtectHome=`, `PrivateTmp=`), whoever may read it. */
const HIDDEN = ['/home', '/root', '/run/user', '/tmp', '/var/tmp'] as const;

/** What the services need, by absolute paths that are no links. */
interface UnitNeeds {
  /** Node, as the units start it. */
  readonly node: string;
  readonly packageFolder: string;
  /** As in the plan. */
  readonly repository: string;
}

/** What keeps the units from starting or from reading the repository, each with what to do. */
export function unitWarnings({ node, packageFolder, repository }: UnitNeeds): string[] {
  const warnings: string[] = [];
  const again = 'then run init again with --force';
  if (hiddenIn(node) !== undefined) {
    warnings.push(
      `${unseen(`the Node of the units, ${node},`, node)} and will not start. Install a Node for the whole machine, such as that of the system's packages, and PolicySync with it; ${again}.`,
    );
  } else if (hiddenIn(packageFolder) !== undefined) {
    warnings.push(
      `${unseen(`the package of the units, ${packageFolder},`, packageFolder)} and will not start. Install it with \`sudo npm install --global <package file>\`; ${again}.`,
    );
  }
  const path = repository.replace(/^file:\/\/(?:localhost)?(?=\/)/i, '');
  if (!isAddress(path) && hiddenIn(path) !== undefined) {
    warnings.push(
      `${unseen(`the repository, ${path},`, path)}. Move it, for example below /srv, or give --repository a URL; ${again}.`,
    );
  }
  return warnings;
}

function hiddenIn(path: string): string | undefined {
  return HIDDEN.find((folder) => path === folder || path.startsWith(`${folder}/`));
}

function unseen(what: string, path: string): string {
  return `${what} is in ${hiddenIn(path)}, which the services do not see (ProtectHome=, PrivateTmp=)`;
}
