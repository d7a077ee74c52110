import type { Command } from 'commander';
import type { StartGo } from '../../../checker/check-engine.js';
import type { CommandIo } from '../../kit/command-io.js';
import { addConfigOption, withConfig } from '../../kit/program-settings.js';
import { addSettingFlags } from '../../kit/settings-program.js';
import { CHECK_SETTINGS, type CheckOptions, checkSettings } from './check-settings.js';

/** Adds `policysync check`: what a server would serve of a repository, and what OPA would say. */
export function addCheckCommand(program: Command, given: CommandIo, startGo?: StartGo): void {
  const command = program
    .command('check')
    .argument('<folder-or-repository>', 'a folder, a git repository on this machine, or the address of one')
    .description('Check a policy repository before it is served: files, manifest, data, and policy as OPA compiles it.')
    .option('--branch <branch>', 'check the head of this branch, not the files on disk')
    .option('--commit <commit>', 'check this commit')
    .option('--test', 'run the tests of the policy by opa test')
    .option('--against <url>', 'compare with what this sync server serves')
    .option('--token <token>', 'token of a client, for --against (env: SYNC_CLIENT_TOKEN)')
    .option('--token-file <file>', 'file that contains the token (env: SYNC_CLIENT_TOKEN_FILE)')
    .option('--json', 'print one JSON document')
    .option('--strict', 'warnings fail, too');
  addConfigOption(command);
  addSettingFlags(command, CHECK_SETTINGS);
  command.action(async (target: string, options: CheckOptions) => {
    const io = withConfig(given, options);
    const settings = checkSettings(command, io.env);
    const { runCheck } = await import('./run-check.js');
    await runCheck(target, options, settings, io, startGo);
  });
}
