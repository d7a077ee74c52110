import * as z from 'zod';
import { VERIFY_SETTINGS } from '../auth/settings.js';
import { sharedSettings } from '../http/settings.js';
import {
  choiceSetting,
  flagSetting,
  jsonSetting,
  listSetting,
  numberSetting,
  opalFlagSetting,
  type SettingValues,
  secondsSetting,
  secretSetting,
  textSetting,
  urlSetting,
} from '../lib/options.js';
import { FETCH_METHODS } from '../wire/data.js';
import { placeRule } from './outbound/place-rules.js';
import { HASH_FORMS } from './report/report-hash.js';
import { callbackConfig, configuredCallbacks } from './report/targets.js';

const SERVER = 'Sync server';
const API = 'Client API';
const ENGINE = 'Policy engine';
const POLICY = 'Policy';
const DATA = 'Data';
const REPORTS = 'Reports';
const OFFLINE = 'Offline mode';

const { allowedHosts, metricsAccess, logLevel, logFormat } = sharedSettings(API);

/** SYNC_INLINE_ENGINE_CONFIG: options of the engine's own program (opal-protocol P6.7). */
export const inlineEngineConfig = z.strictObject({
  addr: z.string().optional(),
  authentication: z.enum(['off', 'token', 'tls']).optional(),
  authorization: z.enum(['off', 'basic']).optional(),
  config_file: z.string().optional(),
  tls_ca_cert_file: z.string().optional(),
  tls_cert_file: z.string().optional(),
  tls_private_key_file: z.string().optional(),
  tls_cert_refresh_period: z.string().optional(),
  log_level: z.enum(['info', 'debug', 'error']).optional(),
  files: z.array(z.string()).optional(),
  v0_compatible: z.boolean().optional(),
});

/** Every setting of the sync client. Defaults that equal OPAL's are from opal-protocol P8.2. */
export const CLIENT_SETTINGS = {
  serverUrl: urlSetting({
    env: 'SYNC_SERVER_URL',
    group: SERVER,
    default: 'http://localhost:7002',
    description: 'The sync server (ours or an OPAL server).',
  }),
  serverWsUrl: urlSetting({
    env: 'SYNC_SERVER_WS_URL',
    group: SERVER,
    description: 'Its address for the socket. Default: SYNC_SERVER_URL with ws in place of http.',
  }),
  clientToken: secretSetting({
    env: 'SYNC_CLIENT_TOKEN',
    group: SERVER,
    description: 'Token that the client sends as Bearer.',
  }),
  selfSignedAllowed: flagSetting({
    env: 'SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED',
    group: SERVER,
    default: false,
    description: 'Trust the authority of SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE, too. Verification is never off.',
  }),
  trustedCaFile: textSetting({
    env: 'SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE',
    group: SERVER,
    form: 'file',
    description: 'PEM authority that server, data sources and callbacks may have their certificates from.',
  }),
  clientCertFile: textSetting({
    env: 'SYNC_CLIENT_TLS_CERT_FILE',
    opal: null,
    group: SERVER,
    form: 'file',
    description: 'PEM certificate that the client shows to a sync server that asks for one.',
  }),
  clientKeyFile: textSetting({
    env: 'SYNC_CLIENT_TLS_KEY_FILE',
    opal: null,
    group: SERVER,
    form: 'file',
    description: 'PEM key of that certificate, without a passphrase.',
  }),
  keepAliveIntervalMs: secondsSetting({
    env: 'SYNC_KEEP_ALIVE_INTERVAL',
    group: SERVER,
    default: 0,
    description: 'Time between RPC pings on the socket, beside its own pings. 0: none.',
  }),
  scopeId: textSetting({
    env: 'SYNC_SCOPE_ID',
    group: SERVER,
    default: 'default',
    description: 'Scope of the policy topics.',
  }),
  statisticsEnabled: flagSetting({
    env: 'SYNC_STATISTICS_ENABLED',
    group: SERVER,
    default: false,
    description: 'Tell the server the id of this client, for its statistics.',
  }),
  clientStatId: textSetting({
    env: 'SYNC_CLIENT_STAT_ID',
    opal: 'OPAL_OPAL_CLIENT_STAT_ID',
    group: SERVER,
    form: 'name',
    description: 'That id. Default: CLIENT_ and 32 hex digits, new at each start.',
  }),
  clientId: textSetting({
    env: 'SYNC_CLIENT_ID',
    opal: null,
    group: SERVER,
    form: 'name',
    description:
      'Name of this client, stable and unique. Default: host name and a hash of the addresses of server, engine and client API.',
  }),
  reconnectMaxMs: secondsSetting({
    env: 'SYNC_RECONNECT_MAX',
    opal: null,
    group: SERVER,
    default: 30,
    min: 0.1,
    description: 'Longest wait between two attempts to connect.',
  }),

  serverAnswerLimitBytes: numberSetting({
    env: 'SYNC_SERVER_ANSWER_LIMIT_BYTES',
    opal: null,
    group: SERVER,
    default: 256 * 1024 * 1024,
    min: 1024,
    unit: 'bytes',
    description:
      'Largest answer of the server that is read: a policy bundle, a list of entries with their inline data.',
  }),
  waitOnServerLoad: flagSetting({
    env: 'SYNC_WAIT_ON_SERVER_LOAD',
    group: SERVER,
    default: false,
    description: 'Ask GET /loadlimit of the server until it answers 200, and only then start to follow it.',
  }),

  host: textSetting({
    env: 'SYNC_CLIENT_API_SERVER_HOST',
    group: API,
    default: '127.0.0.1',
    description: 'Address of the client API.',
  }),
  port: numberSetting({
    env: 'SYNC_CLIENT_API_SERVER_PORT',
    group: API,
    default: 7000,
    max: 65_535,
    unit: 'port',
    description: 'Port of the client API; 0 takes a free one.',
  }),
  metricsAccess,

  allowedHosts,

  apiTlsCertFile: textSetting({
    env: 'SYNC_CLIENT_API_TLS_CERT_FILE',
    opal: null,
    group: API,
    form: 'file',
    description: 'PEM certificate of the client API, with its chain: it then answers https only.',
  }),
  apiTlsKeyFile: textSetting({
    env: 'SYNC_CLIENT_API_TLS_KEY_FILE',
    opal: null,
    group: API,
    form: 'file',
    description: 'PEM key of that certificate, without a passphrase.',
  }),
  apiTlsCaFile: textSetting({
    env: 'SYNC_CLIENT_API_TLS_CA_FILE',
    opal: null,
    group: API,
    form: 'file',
    description: 'PEM authority: callers must then show a certificate that it has signed.',
  }),

  engineUrl: urlSetting({
    env: 'SYNC_POLICY_STORE_URL',
    group: ENGINE,
    default: 'http://localhost:8181',
    description: 'The policy engine: where the inline one listens, or an external one.',
  }),
  inlineEngineEnabled: flagSetting({
    env: 'SYNC_INLINE_ENGINE_ENABLED',
    opal: 'OPAL_INLINE_OPA_ENABLED',
    group: ENGINE,
    default: true,
    description: 'Run the engine as a child process. false: use the external one at SYNC_POLICY_STORE_URL.',
  }),
  inlineEngineExecPath: textSetting({
    env: 'SYNC_INLINE_ENGINE_EXEC_PATH',
    opal: 'OPAL_INLINE_OPA_EXEC_PATH',
    group: ENGINE,
    form: 'file',
    description: 'The OPA executable. Default: looked for, see docs/engine.md.',
  }),
  inlineEngineOpen: flagSetting({
    env: 'SYNC_INLINE_ENGINE_OPEN',
    opal: null,
    group: ENGINE,
    default: false,
    description:
      'Let everybody who reaches the inline engine write policy and data, as OPAL does. false: everybody asks, this client alone writes.',
  }),
  inlineEngineBuiltinsOff: listSetting({
    env: 'SYNC_INLINE_ENGINE_BUILTINS_OFF',
    opal: null,
    group: ENGINE,
    separator: ',',
    default: [],
    description:
      'Built-in functions that policies may not call, for example opa.runtime,http.send. Each commit is then checked by the OPA program first.',
  }),
  inlineEngineOrigins: listSetting({
    env: 'SYNC_INLINE_ENGINE_ALLOWED_ORIGINS',
    opal: null,
    group: ENGINE,
    separator: ',',
    default: [],
    description: 'Origins whose web pages may ask the inline engine, beside its own; * for all.',
  }),
  inlineEngineEnv: listSetting({
    env: 'SYNC_INLINE_ENGINE_ENV',
    opal: null,
    group: ENGINE,
    separator: ',',
    default: [],
    description:
      'Names of more environment variables for the inline engine: every policy reads them by opa.runtime().env.',
  }),
  inlineEngineConfig: jsonSetting({
    env: 'SYNC_INLINE_ENGINE_CONFIG',
    opal: 'OPAL_INLINE_OPA_CONFIG',
    group: ENGINE,
    schema: inlineEngineConfig,
    description: 'Options of the OPA program, for example {"addr":"0.0.0.0:8181"}.',
  }),
  inlineEngineLogFormat: choiceSetting({
    env: 'SYNC_INLINE_ENGINE_LOG_FORMAT',
    opal: 'OPAL_INLINE_OPA_LOG_FORMAT',
    group: ENGINE,
    choices: ['none', 'minimal', 'http', 'full'],
    default: 'none',
    description: "How much of the engine's own log is passed on. Its errors always are.",
  }),
  engineAuthType: choiceSetting({
    env: 'SYNC_POLICY_STORE_AUTH_TYPE',
    group: ENGINE,
    choices: ['none', 'token', 'oauth', 'tls'],
    default: 'none',
    description: 'How we identify ourselves to the engine.',
  }),
  engineAuthToken: secretSetting({
    env: 'SYNC_POLICY_STORE_AUTH_TOKEN',
    group: ENGINE,
    description: 'For token: sent as Bearer.',
  }),
  engineOauthServer: urlSetting({
    env: 'SYNC_POLICY_STORE_AUTH_OAUTH_SERVER',
    group: ENGINE,
    description: 'For oauth: the token endpoint (client credentials).',
  }),
  engineOauthClientId: textSetting({
    env: 'SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID',
    group: ENGINE,
    description: 'For oauth: the id of this client.',
  }),
  engineOauthClientSecret: secretSetting({
    env: 'SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET',
    group: ENGINE,
    description: 'For oauth: its secret.',
  }),
  engineTlsCert: textSetting({
    env: 'SYNC_POLICY_STORE_TLS_CLIENT_CERT',
    group: ENGINE,
    form: 'file',
    description: 'For tls: PEM certificate that is shown to the engine.',
  }),
  engineTlsKey: textSetting({
    env: 'SYNC_POLICY_STORE_TLS_CLIENT_KEY',
    group: ENGINE,
    form: 'file',
    description: 'For tls: PEM key of that certificate, without a passphrase.',
  }),
  engineTlsCa: textSetting({
    env: 'SYNC_POLICY_STORE_TLS_CA',
    group: ENGINE,
    form: 'file',
    description: "PEM authority of the engine's certificate, the only one that is trusted for it.",
  }),
  engineV0Compat: choiceSetting({
    env: 'SYNC_ENGINE_V0_COMPAT',
    opal: 'OPAL_OPA_V0_COMPAT',
    group: ENGINE,
    choices: ['auto', 'true', 'false'],
    ignoreCase: true,
    also: { 1: 'true', YES: 'true', ON: 'true', 0: 'false', NO: 'false', OFF: 'false' },
    default: 'auto',
    description:
      'auto: each module as Rego v1, and as v0 where it cannot be read so. true: all as v0 unless they import rego.v1. false: all as v1.',
  }),
  engineTimeoutMs: secondsSetting({
    env: 'SYNC_POLICY_STORE_TIMEOUT',
    opal: null,
    group: ENGINE,
    default: 30,
    min: 0.1,
    description: 'Longest wait for one answer of the engine.',
  }),
  probeEnabled: flagSetting({
    env: 'SYNC_POLICY_STORE_LIVENESS_PROBE_ENABLED',
    group: ENGINE,
    default: true,
    description: 'Look in the background whether the engine answers and still has our state.',
  }),
  probeIntervalMs: secondsSetting({
    env: 'SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS',
    group: ENGINE,
    default: 10,
    min: 0.05,
    description: 'An engine that does not answer is noticed within this time.',
  }),
  probeTimeoutMs: secondsSetting({
    env: 'SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS',
    group: ENGINE,
    default: 2,
    min: 0.05,
    description: 'Longest wait of one look.',
  }),

  healthDocument: opalFlagSetting({
    env: 'SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED',
    opal: 'OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED',
    group: ENGINE,
    description: "Keep the health document at system.sync in the engine; by OPAL's name at system.opal, too.",
  }),
  excludeStoreSecrets: flagSetting({
    env: 'SYNC_EXCLUDE_POLICY_STORE_SECRETS',
    group: ENGINE,
    default: false,
    description: 'Leave secrets out of GET /policy-store/config. Without authentication they always are.',
  }),

  policyUpdaterEnabled: flagSetting({
    env: 'SYNC_POLICY_UPDATER_ENABLED',
    group: POLICY,
    default: true,
    description: 'Keep policy current.',
  }),
  policyDirs: listSetting({
    env: 'SYNC_POLICY_SUBSCRIPTION_DIRS',
    group: POLICY,
    separator: ':',
    default: ['.'],
    description: 'Directories of the policy repository to subscribe to.',
  }),

  dataUpdaterEnabled: flagSetting({
    env: 'SYNC_DATA_UPDATER_ENABLED',
    group: DATA,
    default: true,
    description: 'Keep data current.',
  }),
  dataTopics: listSetting({
    env: 'SYNC_DATA_TOPICS',
    group: DATA,
    separator: ',',
    default: ['policy_data'],
    description: 'Data topics to subscribe to.',
  }),
  dataConfigUrl: urlSetting({
    env: 'SYNC_DEFAULT_DATA_SOURCES_CONFIG_URL',
    group: DATA,
    description: 'Where the data source entries come from. Default: /data/config of SYNC_SERVER_URL.',
  }),
  fetchConcurrency: numberSetting({
    env: 'SYNC_FETCHING_WORKER_COUNT',
    opal: 'OPAL_FETCHING_WORKER_COUNT',
    group: DATA,
    default: 16,
    min: 1,
    max: 1000,
    description:
      'Data sources that are read at the same time. Beside them run reads that take over a second: as many, or 24.',
  }),
  fetchPerHost: numberSetting({
    env: 'SYNC_FETCH_PER_HOST',
    opal: null,
    group: DATA,
    default: 12,
    min: 1,
    max: 1000,
    description: 'Of these, at the same host; at the same database no more than 6.',
  }),
  fetchTimeoutMs: secondsSetting({
    env: 'SYNC_HTTP_FETCHER_TIMEOUT',
    group: DATA,
    default: 5,
    min: 0.05,
    description: 'Longest silence of a data source: to connect, to answer, and between two parts of a body.',
  }),
  fetchTotalTimeoutMs: secondsSetting({
    env: 'SYNC_FETCH_TOTAL_TIMEOUT',
    opal: null,
    group: DATA,
    default: 300,
    min: 0.05,
    description: 'Longest time for one whole read of a data source.',
  }),
  fetchLimitBytes: numberSetting({
    env: 'SYNC_FETCH_LIMIT_BYTES',
    opal: null,
    group: DATA,
    default: 1024 * 1024 * 1024,
    min: 1024,
    unit: 'bytes',
    description: 'Largest document that is accepted.',
  }),
  fetchProviderModules: listSetting({
    env: 'SYNC_FETCH_PROVIDER_MODULES',
    opal: null,
    group: DATA,
    separator: ',',
    default: [],
    description: 'ES modules whose default export is a fetch provider, as file paths; see docs/data-sources.md.',
  }),
  fetchAllow: listSetting({
    env: 'SYNC_FETCH_ALLOW',
    opal: null,
    group: DATA,
    separator: ',',
    default: [],
    parseItem: placeItem,
    description:
      'Where data sources, callbacks and redirects may lead: names, .suffixes, addresses, ranges, each with :port if wanted. Empty: anywhere but link-local addresses. See docs/security.md.',
  }),
  fetchDeny: listSetting({
    env: 'SYNC_FETCH_DENY',
    opal: null,
    group: DATA,
    separator: ',',
    default: [],
    parseItem: placeItem,
    description: 'Where they may not lead, in the same form; wins over SYNC_FETCH_ALLOW.',
  }),
  fetchMethods: listSetting({
    env: 'SYNC_FETCH_METHODS',
    opal: null,
    group: DATA,
    separator: ',',
    default: ['GET', 'POST'],
    parseItem: methodItem,
    description: 'HTTP methods that data sources and callbacks may be called by.',
  }),
  pollMinMs: secondsSetting({
    env: 'SYNC_PERIODIC_UPDATE_INTERVAL_MIN',
    opal: null,
    group: DATA,
    default: 1,
    min: 0.05,
    description: 'Shortest time between two reads of a source with periodic_update_interval.',
  }),
  driftCheckIntervalMs: secondsSetting({
    env: 'SYNC_DRIFT_CHECK_INTERVAL',
    opal: null,
    group: DATA,
    default: 0,
    description:
      'Time between two comparisons of all documents with what the engine holds. 0: none; see docs/catch-up.md.',
  }),
  retryMaxMs: secondsSetting({
    env: 'SYNC_RETRY_MAX',
    opal: null,
    group: DATA,
    default: 30,
    min: 0.05,
    description: 'Longest wait before a failed read or write is tried again. Tries never end.',
  }),

  reportUpdates: flagSetting({
    env: 'SYNC_SHOULD_REPORT_ON_DATA_UPDATES',
    group: REPORTS,
    default: false,
    description: 'Report each data update, and each policy, to the callbacks once the engine has it.',
  }),
  reportFailedUpdates: flagSetting({
    env: 'SYNC_REPORT_FAILED_UPDATES',
    opal: null,
    group: REPORTS,
    default: false,
    description: 'Report an update also when its first attempt has failed, before the report of its success.',
  }),
  reportHashForm: choiceSetting({
    env: 'SYNC_REPORT_HASH_FORM',
    opal: null,
    group: REPORTS,
    choices: HASH_FORMS,
    default: 'bytes',
    description: 'The hash in reports. bytes: SHA-256 of the fetched bytes. opal: as OPAL clients have it.',
  }),
  updateCallbacks: jsonSetting({
    env: 'SYNC_DEFAULT_UPDATE_CALLBACKS',
    group: REPORTS,
    schema: configuredCallbacks,
    description: 'Callbacks of every update: {"callbacks":[url or [url, config]]}. Default: the sync server.',
  }),
  updateCallbackConfig: jsonSetting({
    env: 'SYNC_DEFAULT_UPDATE_CALLBACK_CONFIG',
    group: REPORTS,
    schema: callbackConfig,
    description: 'How a callback is called that is a URL alone. Default: POST with content-type application/json.',
  }),

  ...VERIFY_SETTINGS,

  offlineModeEnabled: flagSetting({
    env: 'SYNC_OFFLINE_MODE_ENABLED',
    group: OFFLINE,
    default: false,
    description: 'Keep a backup, serve it from the start, and let connectivity be switched. Works with every engine.',
  }),
  backupPath: textSetting({
    env: 'SYNC_STORE_BACKUP_PATH',
    group: OFFLINE,
    form: 'file',
    description: 'The backup file. Default: policysync/backup/opa.json in XDG_STATE_HOME or ~/.local/state.',
  }),
  backupIntervalMs: secondsSetting({
    env: 'SYNC_STORE_BACKUP_INTERVAL',
    group: OFFLINE,
    default: 60,
    min: 0.05,
    description: 'Time between two backups; one is written only when something has changed.',
  }),
  startDisconnected: flagSetting({
    env: 'SYNC_DEFAULT_SYNC_SERVER_CONNECTIVITY_DISABLED',
    opal: 'OPAL_DEFAULT_OPAL_SERVER_CONNECTIVITY_DISABLED',
    group: OFFLINE,
    default: false,
    description: 'Start without the server where offline mode is on and there is a valid backup.',
  }),

  logLevel,
  logFormat,
};

function placeItem(text: string): string {
  return placeRule(text).text;
}

function methodItem(text: string): string {
  const method = text.toLowerCase();
  if (FETCH_METHODS.some((known) => known === method)) return method.toUpperCase();
  throw new Error(`must be a list of ${FETCH_METHODS.map((known) => known.toUpperCase()).join(', ')}`);
}

/** Typed values of {@link CLIENT_SETTINGS}. */
export type ClientSettings = SettingValues<typeof CLIENT_SETTINGS>;
