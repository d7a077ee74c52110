import { Argument, type Command } from 'commander';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { errorText, SyncError } from '../../../lib/errors.js';
import type { Setting } from '../../../lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../../server/options.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { addConfigOption, loadProgramSettings, withConfig } from '../../kit/program-settings.js';
import { EXIT, ExitError, UsageError } from '../../kit/run-program.js';
import type { HealthTarget } from './health-request.js';

/** A program that can be asked. */
interface Asked {
  readonly paths: { readonly ready: string; readonly live: string };
  /** Those that say where it listens. */
  readonly settings: { readonly [K in keyof HealthTarget]: Setting<HealthTarget[K]> };
}

const { host, port, tlsCertFile, tlsKeyFile } = SERVER_SETTINGS;
const { host: apiHost, port: apiPort, apiTlsCertFile, apiTlsKeyFile } = CLIENT_SETTINGS;

const PROGRAMS = {
  server: {
    paths: { ready: '/ready', live: '/healthcheck' },
    settings: { host, port, cert: tlsCertFile, key: tlsKeyFile },
  },
  client: {
    paths: { ready: '/ready', live: '/live' },
    settings: { host: apiHost, port: apiPort, cert: apiTlsCertFile, key: apiTlsKeyFile },
  },
} as const satisfies Record<string, Asked>;
type ProgramName = keyof typeof PROGRAMS;

/**
 * Probes of Docker and Kubernetes give up earlier or later; a program that takes longer than this
 * is in trouble.
 */
const TIMEOUT_SECONDS = 3;
const LONGEST_SECONDS = 60;

interface HealthcheckOptions {
  live?: boolean;
  timeout?: string;
  config?: string;
}

/**
 * Adds `healthcheck`: asks the server or the client of the same settings, on this machine, whether
 * it is ready. Exit code 0 or 1 and no other (see runCommandLine), since container runtimes reserve
 * 2.
 */
export function addHealthcheckCommand(program: Command, io: CommandIo): void {
  const command = program
    .command('healthcheck')
    .description(
      'Ask the server or client on this machine, by its own settings, whether it is ready. Exit code 0 or 1, for containers.',
    )
    .addArgument(new Argument('<program>', 'which one').choices(Object.keys(PROGRAMS)))
    .option('--live', 'only whether it is alive: it is before it has a policy, too')
    .option('--timeout <seconds>', `time for the answer (default: ${TIMEOUT_SECONDS})`);
  addConfigOption(command).action(
    async (name: ProgramName, { live = false, timeout, ...options }: HealthcheckOptions) => {
      const { paths } = PROGRAMS[name];
      try {
        const { askHealth } = await import('./health-request.js');
        const target = targetOf(name, withConfig(io, options).env);
        const answer = await askHealth(target, live ? paths.live : paths.ready, timeoutMs(timeout));
        printLine(io.stdout, `the ${name} is ${live ? 'alive' : 'ready'}${answer === '' ? '' : `: ${answer}`}`);
      } catch (error) {
        const code = error instanceof SyncError ? error.code : 'unhealthy';
        throw new ExitError(code, `the ${name}: ${errorText(error)}`, EXIT.failed);
      }
    },
  );
}

/** Where the program of these settings listens, as seen from this machine. */
function targetOf(name: ProgramName, env: NodeJS.ProcessEnv): HealthTarget {
  const { settings } = PROGRAMS[name];
  const target = loadProgramSettings(name, settings, { env }).values;
  if (target.port === 0) throw new UsageError(`${settings.port.env} is 0, so its port is not known: set a port`);
  return { ...target, host: ANY_ADDRESS.get(target.host) ?? target.host };
}

/** Who listens on every address is asked on the loopback one. */
const ANY_ADDRESS: ReadonlyMap<string, string> = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
]);

function timeoutMs(text: string | undefined): number {
  const seconds = text === undefined ? TIMEOUT_SECONDS : Number(text);
  if (seconds > 0 && seconds <= LONGEST_SECONDS) return seconds * 1000;
  throw new UsageError(
    `--timeout must be more than 0 and at most ${LONGEST_SECONDS} seconds (is ${JSON.stringify(text)})`,
  );
}
