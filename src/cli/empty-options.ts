import type { Command } from 'commander';
import { UsageError } from './run-program.js';
import { SettingOption } from './setting-option.js';

/**
 * Throws {@link UsageError} that names the first option with an empty value: nearly always the variable of a script that is not set,
 * as in `--topic "$TOPIC"`.
 */
export function refuseEmptyOptions(command: Command): void {
  for (const option of command.options) {
    if (option instanceof SettingOption) continue;
    const name = option.attributeName();
    const values: unknown[] = [command.getOptionValue(name)].flat();
    if (command.getOptionValueSource(name) === 'cli' && values.includes(''))
      throw new UsageError(`${option.long ?? name} has an empty value: give one, or leave it out`);
  }
}
