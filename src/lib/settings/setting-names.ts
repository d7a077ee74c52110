import { flagName, type Setting, type Settings, secretFileEnv, secretFileFlag } from './setting.js';
import { didYouMean } from './similar-name.js';

/**
 * How a place calls a setting: a program that embeds us by its property, a command line and the
 * configuration file by its flag.
 */
export type NameForm = 'property' | 'flag';

/**
 * A hint at the setting that was probably meant, whichever of its names a wrong one is like, as the
 * place calls it; or nothing.
 */
export function settingHint(name: string, settings: Settings, form: NameForm): string {
  const shown = new Map<string, string>();
  for (const [key, setting] of Object.entries(settings)) {
    const plain = form === 'property' ? key : flagName(setting);
    const ofFile = form === 'property' ? key : secretFileFlag(setting);
    for (const each of [key, ...envNamesOf(setting)]) shown.set(each, plain);
    if (setting.secret) for (const each of envNamesOf(setting)) shown.set(secretFileEnv(each), ofFile);
  }
  return didYouMean(name, shown);
}

function envNamesOf({ env, aliases }: Setting<unknown>): string[] {
  return [env, ...aliases];
}
