import { SyncError } from '../../lib/errors.js';
import type { ClientSettings } from '../options.js';

/** OPA's REST API of an engine that the client runs. */
export interface EngineRest {
  /** Its port. Default: that of SYNC_POLICY_STORE_URL, as the programs have it. */
  readonly port?: number | undefined;
}

/** The settings with the port that a program asks for. Throws `config_invalid` where that cannot be. */
export function withRest(settings: ClientSettings, { port }: EngineRest = {}): ClientSettings {
  if (port === undefined) return settings;
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new SyncError('config_invalid', `rest.port must be a whole number between 1 and 65535; it is ${port}`);
  }
  if (settings.engine === 'external') {
    throw new SyncError('config_invalid', 'rest.port: an external engine has its own address, which is engineUrl');
  }
  if (settings.inlineEngineConfig?.addr !== undefined) {
    const message = 'rest.port and addr of inlineEngineConfig are two addresses of one engine: leave one of them out';
    throw new SyncError('config_invalid', message);
  }
  const url = new URL(settings.engineUrl);
  url.port = String(port);
  return { ...settings, engineUrl: url.href.replace(/\/$/, '') };
}
