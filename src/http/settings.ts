import { OPAL_LOG_LEVELS } from '../lib/observe/log.js';
import { LOG_LEVELS } from '../lib/observe/log-levels.js';
import { choiceSetting, listSetting, pathSetting, secondsSetting } from '../lib/settings/setting-kinds.js';
import { METRICS_ACCESS } from './metrics-route.js';

/** Settings of both programs; each lists them under a heading of its own. */
export const SHARED_SETTINGS = {
  allowedHosts: listSetting(
    'SYNC_ALLOWED_HOSTS',
    'Host names under which it may be called besides loopback names; .example.com allows all below it. Empty: any, or only loopback names if it listens on a loopback address.',
    { opal: null },
  ),
  metricsAccess: choiceSetting(
    'SYNC_METRICS_ACCESS',
    'Who may read /metrics: everyone; token: callers with a valid token, if authentication is on; off: nobody.',
    { opal: null, choices: METRICS_ACCESS, default: 'token' },
  ),
  drainDelayMs: secondsSetting(
    'SYNC_DRAIN_DELAY',
    'Time after SIGTERM in which it serves as usual while GET /ready is 503, so that load balancers notice.',
    { opal: null, default: 0, max: 3600 },
  ),
  engineV0Compat: choiceSetting(
    'SYNC_ENGINE_V0_COMPAT',
    'auto: each module is Rego v1, or v0 if it does not parse as v1. true: v0 unless a module imports rego.v1. false: v1.',
    {
      opal: 'OPAL_OPA_V0_COMPAT',
      choices: ['auto', 'true', 'false'],
      ignoreCase: true,
      also: { 1: 'true', YES: 'true', ON: 'true', 0: 'false', NO: 'false', OFF: 'false' },
      default: 'auto',
    },
  ),
  logLevel: choiceSetting('SYNC_LOG_LEVEL', 'Least severe level that is logged.', {
    choices: LOG_LEVELS,
    default: 'info',
    ignoreCase: true,
    also: OPAL_LOG_LEVELS,
  }),
  logFormat: choiceSetting('SYNC_LOG_FORMAT', 'auto: pretty on a terminal, otherwise one JSON object per line.', {
    opal: null,
    choices: ['auto', 'json', 'pretty'],
    default: 'auto',
  }),
};

/**
 * Certificate, key and authority of a listener. `prefix`: of the environment names; `protocols`:
 * spoken when they are set.
 */
export function listenerTlsSettings(prefix: string, { name, protocols }: { name: string; protocols: string }) {
  const file = { opal: null, form: 'file' } as const;
  const certificate = `PEM certificate of the ${name} with its chain. When set, it speaks ${protocols} only.`;
  const authority = 'PEM certificate authority. When set, callers must present a certificate that it signed.';
  return {
    cert: pathSetting(`${prefix}_CERT_FILE`, certificate, file),
    key: pathSetting(`${prefix}_KEY_FILE`, 'PEM key of that certificate, without a passphrase.', file),
    ca: pathSetting(`${prefix}_CA_FILE`, authority, file),
  };
}
