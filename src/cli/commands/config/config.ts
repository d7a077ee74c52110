import type { Command } from 'commander';
import type { Settings } from '../../../lib/settings/setting.js';
import { SECTIONS } from '../../../settings.js';
import { type CommandIo, printLine } from '../../kit/command-io.js';
import { configJson, configText } from '../../kit/config-text.js';
import {
  addConfigOption,
  loadProgramSettings,
  printWarnings,
  type Section,
  withConfig,
} from '../../kit/program-settings.js';
import { UsageError } from '../../kit/run-program.js';
import { addPrintConfigCommand, HELP_COMMAND } from '../../kit/settings-program.js';
import { clientProgram } from '../../programs/client-program.js';
import { serverProgram } from '../../programs/server-program.js';

/**
 * Adds `config print [server|client]`: of one program, whose settings it accepts as options, or of
 * both.
 */
export function addConfigCommand(program: Command, io: CommandIo): void {
  const config = program
    .command('config')
    .helpCommand(...HELP_COMMAND)
    .description('Print the effective configuration with the origin of each value.');
  const print = config
    .command('print')
    .description('Print the effective configuration of both programs, or of one, with the origin of each value.')
    .option('--json', 'print one JSON document');
  addPrintConfigCommand(print, serverProgram(io), io);
  addPrintConfigCommand(print, clientProgram(io), io);
  addConfigOption(print)
    // Those that are no program, to name them.
    .allowExcessArguments(true)
    .action((options: { config?: string; json?: boolean }) => {
      const [name] = print.args;
      if (name !== undefined) {
        throw new UsageError(`config print is of ${Object.keys(SECTIONS).join(' or ')} (is ${JSON.stringify(name)})`);
      }
      printBoth(options, io);
    });
}

function printBoth(options: { config?: string; json?: boolean }, io: CommandIo): void {
  const programs = (Object.keys(SECTIONS) as Section[]).map((section) => {
    const settings: Settings = SECTIONS[section];
    return { section, settings, loaded: loadProgramSettings(section, settings, { env: withConfig(io, options).env }) };
  });
  printWarnings([...new Set(programs.flatMap(({ loaded }) => loaded.warnings))], io.stderr);
  if (options.json === true) printLine(io.stdout, configJson(programs));
  else
    printLine(
      io.stdout,
      programs.map(({ section, settings, loaded }) => `## ${section}\n\n${configText(settings, loaded)}`).join('\n\n'),
    );
}
