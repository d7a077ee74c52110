import { Option } from 'commander';
import type { Setting } from '../../lib/settings/setting.js';

/** An option that is a setting: its declaration has the rules of its value. */
export class SettingOption extends Option {
  readonly setting: Setting<unknown>;

  constructor(flags: string, description: string, setting: Setting<unknown>) {
    super(flags, description);
    this.setting = setting;
  }
}
