import { Argument, type Command } from 'commander';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { errorText } from '../../../lib/errors.js';
import type { LoadedSettings } from '../../../lib/settings/options.js';
import { flagName, type Settings } from '../../../lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../../server/options.js';
import type { CommandIo } from '../../kit/command-io.js';
import { errorFinding, type Finding, okFinding, reportFindings, warningFinding } from '../../kit/findings.js';
import { addConfigOption, withConfig } from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { addSettingFlags, loadFromCommand } from '../../kit/settings-program.js';
import { defaultStateDir } from '../../programs/server-program.js';

const PROGRAMS = ['server', 'client'] as const;
type ProgramName = (typeof PROGRAMS)[number];
const SETTINGS = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS } as const;
/** Bounds of `--timeout`, in seconds. */
const TIMEOUT = { default: 5, min: 0.1, max: 600 };

interface DoctorOptions {
  json?: boolean;
  strict?: boolean;
  timeout: string;
  config?: string;
}

/**
 * Adds `policysync doctor`: checks what a server or a client with these settings needs, without
 * running it.
 */
export function addDoctorCommand(program: Command, given: CommandIo): void {
  const doctor = program
    .command('doctor')
    .description(
      'Check a set-up: whether all is there that the server or the client needs, with the settings that it would have. Each setting is an option here, too.',
    )
    .addArgument(
      new Argument('[program]', 'which program (default: those that have settings, otherwise both)').choices(PROGRAMS),
    )
    .option('--json', 'print one JSON document')
    .option('--strict', 'fail on warnings, too')
    .option('--timeout <seconds>', 'time limit of each check', String(TIMEOUT.default));
  addConfigOption(doctor);
  addHiddenSettings(doctor);
  doctor.action(async (asked: ProgramName | undefined, options: DoctorOptions) => {
    const io = withConfig(given, options);
    const { env, stdout } = io;
    const limitMs = timeoutMs(options.timeout);
    const programs = asked === undefined ? configured(doctor, io) : [asked];
    const findings: Finding[] = [];
    for (const one of programs) findings.push(...(await findingsOf(one, doctor, { io, limitMs })));
    reportFindings(findings, options, { out: stdout, env, more: { programs } });
  });
}

/** The settings of both programs as options that help does not list. */
function addHiddenSettings(command: Command): void {
  const shown = command.options.length;
  const byFlag = Object.values(SETTINGS).flatMap((settings: Settings) =>
    Object.values(settings).map((setting): [string, Settings[string]] => [flagName(setting), setting]),
  );
  addSettingFlags(command, Object.fromEntries(byFlag));
  for (const option of command.options.slice(shown)) option.hideHelp();
}

function timeoutMs(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== '' && seconds >= TIMEOUT.min && seconds <= TIMEOUT.max) return seconds * 1000;
  throw new UsageError(`--timeout must be seconds from ${TIMEOUT.min} to ${TIMEOUT.max} (is "${text}")`);
}

/** The programs for which something is set that only they have; both if there is nothing. */
function configured(command: Command, io: CommandIo): readonly ProgramName[] {
  const found = PROGRAMS.filter((name) => {
    try {
      const other: Settings = SETTINGS[name === 'server' ? 'client' : 'server'];
      const shared = new Set(Object.values(other).map((setting) => setting.env));
      const { origins } = load(name, command, io);
      return Object.entries<Settings[string]>(SETTINGS[name]).some(
        ([key, setting]) => !shared.has(setting.env) && origins[key as keyof typeof origins] !== 'default',
      );
    } catch {
      return true; // its findings say what is not valid
    }
  });
  return found.length === 0 ? PROGRAMS : found;
}

async function findingsOf(
  name: ProgramName,
  command: Command,
  { io, limitMs }: { io: CommandIo; limitMs: number },
): Promise<Finding[]> {
  const context = { env: io.env, limitMs };
  const [id, subject] = [`${name}_settings`, `settings of the ${name}`];
  try {
    if (name === 'server') {
      const loaded = load('server', command, io);
      const { serverFindings } = await import('./server-findings.js');
      const stateDir = loaded.values.stateDir ?? defaultStateDir(io.env);
      return [settingsFinding(id, subject, loaded), ...(await serverFindings({ ...loaded.values, stateDir }, context))];
    }
    const loaded = load('client', command, io);
    const { clientFindings } = await import('./client-findings.js');
    return [settingsFinding(id, subject, loaded), ...(await clientFindings(loaded.values, context))];
  } catch (error) {
    const remedy = 'Correct the settings that the message names; docs/reference/settings.md has the form of each.';
    return [errorFinding(id, subject, errorText(error), remedy)];
  }
}

function load<N extends ProgramName>(name: N, command: Command, io: CommandIo): LoadedSettings<(typeof SETTINGS)[N]> {
  return loadFromCommand(command, { section: name, settings: SETTINGS[name] }, io);
}

function settingsFinding(
  id: string,
  subject: string,
  { unknown, warnings }: { unknown: readonly string[]; warnings: readonly string[] },
): Finding {
  const [warning] = warnings;
  if (warning !== undefined) {
    return warningFinding(id, subject, warnings.join('; '), 'Let nobody but the user of the program read the files.');
  }
  if (unknown.length === 0) return okFinding(id, subject, 'valid');
  const message = `the environment has names that no setting has: ${unknown.join(', ')}`;
  return warningFinding(
    id,
    subject,
    message,
    'Correct their spelling, or remove them; see docs/reference/settings.md.',
  );
}
