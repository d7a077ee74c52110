import * as z from 'zod';
import { VERIFY_SETTINGS } from '../auth/settings.js';
import { SHARED_SETTINGS } from '../http/settings.js';
import {
  choiceSetting,
  flagSetting,
  inGroup,
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

const { allowedHosts, metricsAccess, logLevel, logFormat } = SHARED_SETTINGS;

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
  ...inGroup('Sync server', {
    serverUrl: urlSetting('SYNC_SERVER_URL', 'The sync server (ours or an OPAL server).', {
      default: 'http://localhost:7002',
    }),
    serverWsUrl: urlSetting(
      'SYNC_SERVER_WS_URL',
      'Its address for the socket. Default: SYNC_SERVER_URL with ws in place of http.',
    ),
    clientToken: secretSetting('SYNC_CLIENT_TOKEN', 'Token that the client sends as Bearer.'),
    selfSignedAllowed: flagSetting(
      'SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED',
      'Trust the authority of SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE, too. Verification is never off.',
    ),
    trustedCaFile: textSetting(
      'SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE',
      'PEM authority that server, data sources and callbacks may have their certificates from.',
      { form: 'file' },
    ),
    clientCertFile: textSetting(
      'SYNC_CLIENT_TLS_CERT_FILE',
      'PEM certificate that the client shows to a sync server that asks for one.',
      { opal: null, form: 'file' },
    ),
    clientKeyFile: textSetting('SYNC_CLIENT_TLS_KEY_FILE', 'PEM key of that certificate, without a passphrase.', {
      opal: null,
      form: 'file',
    }),
    keepAliveIntervalMs: secondsSetting(
      'SYNC_KEEP_ALIVE_INTERVAL',
      'Time between RPC pings on the socket, beside its own pings. 0: none.',
      { default: 0 },
    ),
    scopeId: textSetting('SYNC_SCOPE_ID', 'Scope of the policy topics.', { default: 'default' }),
    statisticsEnabled: flagSetting(
      'SYNC_STATISTICS_ENABLED',
      'Tell the server the id of this client, for its statistics.',
    ),
    clientStatId: textSetting(
      'SYNC_CLIENT_STAT_ID',
      'That id. Default: CLIENT_ and 32 hex digits, new at each start.',
      { opal: 'OPAL_OPAL_CLIENT_STAT_ID', form: 'name' },
    ),
    clientId: textSetting(
      'SYNC_CLIENT_ID',
      'Name of this client, stable and unique. Default: host name and a hash of the addresses of server, engine and client API.',
      { opal: null, form: 'name' },
    ),
    reconnectMaxMs: secondsSetting('SYNC_RECONNECT_MAX', 'Longest wait between two attempts to connect.', {
      opal: null,
      default: 30,
      min: 0.1,
    }),

    serverAnswerLimitBytes: numberSetting(
      'SYNC_SERVER_ANSWER_LIMIT_BYTES',
      'Largest answer of the server that is read: a policy bundle, a list of entries with their inline data.',
      { opal: null, default: 256 * 1024 * 1024, min: 1024, unit: 'bytes' },
    ),
    waitOnServerLoad: flagSetting(
      'SYNC_WAIT_ON_SERVER_LOAD',
      'Ask GET /loadlimit of the server until it answers 200, and only then start to follow it.',
    ),
  }),
  ...inGroup('Client API', {
    host: textSetting('SYNC_CLIENT_API_SERVER_HOST', 'Address of the client API.', { default: '127.0.0.1' }),
    port: numberSetting('SYNC_CLIENT_API_SERVER_PORT', 'Port of the client API; 0 takes a free one.', {
      default: 7000,
      max: 65_535,
      unit: 'port',
    }),
    metricsAccess,

    allowedHosts,

    apiTlsCertFile: textSetting(
      'SYNC_CLIENT_API_TLS_CERT_FILE',
      'PEM certificate of the client API, with its chain: it then answers https only.',
      { opal: null, form: 'file' },
    ),
    apiTlsKeyFile: textSetting('SYNC_CLIENT_API_TLS_KEY_FILE', 'PEM key of that certificate, without a passphrase.', {
      opal: null,
      form: 'file',
    }),
    apiTlsCaFile: textSetting(
      'SYNC_CLIENT_API_TLS_CA_FILE',
      'PEM authority: callers must then show a certificate that it has signed.',
      { opal: null, form: 'file' },
    ),
  }),
  ...inGroup('Policy engine', {
    engineUrl: urlSetting(
      'SYNC_POLICY_STORE_URL',
      'The policy engine: where the inline one listens, or an external one.',
      { default: 'http://localhost:8181' },
    ),
    inlineEngineEnabled: flagSetting(
      'SYNC_INLINE_ENGINE_ENABLED',
      'Run the engine as a child process. false: use the external one at SYNC_POLICY_STORE_URL.',
      { opal: 'OPAL_INLINE_OPA_ENABLED', default: true },
    ),
    inlineEngineExecPath: textSetting(
      'SYNC_INLINE_ENGINE_EXEC_PATH',
      'The OPA executable. Default: looked for, see docs/engine.md.',
      { opal: 'OPAL_INLINE_OPA_EXEC_PATH', form: 'file' },
    ),
    inlineEngineOpen: flagSetting(
      'SYNC_INLINE_ENGINE_OPEN',
      'Let everybody who reaches the inline engine write policy and data, as OPAL does. false: everybody asks, this client alone writes.',
      { opal: null },
    ),
    inlineEngineBuiltinsOff: listSetting(
      'SYNC_INLINE_ENGINE_BUILTINS_OFF',
      'Built-in functions that policies may not call, for example opa.runtime,http.send. Each commit is then checked by the OPA program first.',
      { opal: null },
    ),
    inlineEngineOrigins: listSetting(
      'SYNC_INLINE_ENGINE_ALLOWED_ORIGINS',
      'Origins whose web pages may ask the inline engine, beside its own; * for all.',
      { opal: null },
    ),
    inlineEngineEnv: listSetting(
      'SYNC_INLINE_ENGINE_ENV',
      'Names of more environment variables for the inline engine: every policy reads them by opa.runtime().env.',
      { opal: null },
    ),
    inlineEngineConfig: jsonSetting(
      'SYNC_INLINE_ENGINE_CONFIG',
      'Options of the OPA program, for example {"addr":"0.0.0.0:8181"}.',
      { opal: 'OPAL_INLINE_OPA_CONFIG', schema: inlineEngineConfig },
    ),
    inlineEngineLogFormat: choiceSetting(
      'SYNC_INLINE_ENGINE_LOG_FORMAT',
      "How much of the engine's own log is passed on. Its errors always are.",
      { opal: 'OPAL_INLINE_OPA_LOG_FORMAT', choices: ['none', 'minimal', 'http', 'full'], default: 'none' },
    ),
    engineAuthType: choiceSetting('SYNC_POLICY_STORE_AUTH_TYPE', 'How we identify ourselves to the engine.', {
      choices: ['none', 'token', 'oauth', 'tls'],
      default: 'none',
    }),
    engineAuthToken: secretSetting('SYNC_POLICY_STORE_AUTH_TOKEN', 'For token: sent as Bearer.'),
    engineOauthServer: urlSetting(
      'SYNC_POLICY_STORE_AUTH_OAUTH_SERVER',
      'For oauth: the token endpoint (client credentials).',
    ),
    engineOauthClientId: textSetting('SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID', 'For oauth: the id of this client.'),
    engineOauthClientSecret: secretSetting('SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET', 'For oauth: its secret.'),
    engineTlsCert: textSetting(
      'SYNC_POLICY_STORE_TLS_CLIENT_CERT',
      'For tls: PEM certificate that is shown to the engine.',
      { form: 'file' },
    ),
    engineTlsKey: textSetting(
      'SYNC_POLICY_STORE_TLS_CLIENT_KEY',
      'For tls: PEM key of that certificate, without a passphrase.',
      { form: 'file' },
    ),
    engineTlsCa: textSetting(
      'SYNC_POLICY_STORE_TLS_CA',
      "PEM authority of the engine's certificate, the only one that is trusted for it.",
      { form: 'file' },
    ),
    engineV0Compat: choiceSetting(
      'SYNC_ENGINE_V0_COMPAT',
      'auto: each module as Rego v1, and as v0 where it cannot be read so. true: all as v0 unless they import rego.v1. false: all as v1.',
      {
        opal: 'OPAL_OPA_V0_COMPAT',
        choices: ['auto', 'true', 'false'],
        ignoreCase: true,
        also: { 1: 'true', YES: 'true', ON: 'true', 0: 'false', NO: 'false', OFF: 'false' },
        default: 'auto',
      },
    ),
    engineTimeoutMs: secondsSetting('SYNC_POLICY_STORE_TIMEOUT', 'Longest wait for one answer of the engine.', {
      opal: null,
      default: 30,
      min: 0.1,
    }),
    probeEnabled: flagSetting(
      'SYNC_POLICY_STORE_LIVENESS_PROBE_ENABLED',
      'Look in the background whether the engine answers and still has our state.',
      { default: true },
    ),
    probeIntervalMs: secondsSetting(
      'SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS',
      'An engine that does not answer is noticed within this time.',
      { default: 10, min: 0.05 },
    ),
    probeTimeoutMs: secondsSetting('SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS', 'Longest wait of one look.', {
      default: 2,
      min: 0.05,
    }),

    healthDocument: opalFlagSetting(
      'SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED',
      "Keep the health document at system.sync in the engine; by OPAL's name at system.opal, too.",
      { opal: 'OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED' },
    ),
    excludeStoreSecrets: flagSetting(
      'SYNC_EXCLUDE_POLICY_STORE_SECRETS',
      'Leave secrets out of GET /policy-store/config. Without authentication they always are.',
    ),
  }),
  ...inGroup('Policy', {
    policyUpdaterEnabled: flagSetting('SYNC_POLICY_UPDATER_ENABLED', 'Keep policy current.', { default: true }),
    policyDirs: listSetting('SYNC_POLICY_SUBSCRIPTION_DIRS', 'Directories of the policy repository to subscribe to.', {
      separator: ':',
      default: ['.'],
    }),
  }),
  ...inGroup('Data', {
    dataUpdaterEnabled: flagSetting('SYNC_DATA_UPDATER_ENABLED', 'Keep data current.', { default: true }),
    dataTopics: listSetting('SYNC_DATA_TOPICS', 'Data topics to subscribe to.', { default: ['policy_data'] }),
    dataConfigUrl: urlSetting(
      'SYNC_DEFAULT_DATA_SOURCES_CONFIG_URL',
      'Where the data source entries come from. Default: /data/config of SYNC_SERVER_URL.',
    ),
    fetchConcurrency: numberSetting(
      'SYNC_FETCHING_WORKER_COUNT',
      'Data sources that are read at the same time. Beside them run reads that take over a second: as many, or 24.',
      { opal: 'OPAL_FETCHING_WORKER_COUNT', default: 16, min: 1, max: 1000 },
    ),
    fetchPerHost: numberSetting(
      'SYNC_FETCH_PER_HOST',
      'Of these, at the same host; at the same database no more than 6.',
      { opal: null, default: 12, min: 1, max: 1000 },
    ),
    fetchTimeoutMs: secondsSetting(
      'SYNC_HTTP_FETCHER_TIMEOUT',
      'Longest silence of a data source: to connect, to answer, and between two parts of a body.',
      { default: 5, min: 0.05 },
    ),
    fetchTotalTimeoutMs: secondsSetting(
      'SYNC_FETCH_TOTAL_TIMEOUT',
      'Longest time for one whole read of a data source.',
      { opal: null, default: 300, min: 0.05 },
    ),
    fetchLimitBytes: numberSetting('SYNC_FETCH_LIMIT_BYTES', 'Largest document that is accepted.', {
      opal: null,
      default: 1024 * 1024 * 1024,
      min: 1024,
      unit: 'bytes',
    }),
    fetchProviderModules: listSetting(
      'SYNC_FETCH_PROVIDER_MODULES',
      'ES modules whose default export is a fetch provider, as file paths; see docs/data-sources.md.',
      { opal: null },
    ),
    fetchAllow: listSetting(
      'SYNC_FETCH_ALLOW',
      'Where data sources, callbacks and redirects may lead: names, .suffixes, addresses, ranges, each with :port if wanted. Empty: anywhere but link-local addresses. See docs/security.md.',
      { opal: null, parseItem: placeItem },
    ),
    fetchDeny: listSetting(
      'SYNC_FETCH_DENY',
      'Where they may not lead, in the same form; wins over SYNC_FETCH_ALLOW.',
      { opal: null, parseItem: placeItem },
    ),
    fetchMethods: listSetting('SYNC_FETCH_METHODS', 'HTTP methods that data sources and callbacks may be called by.', {
      opal: null,
      default: ['GET', 'POST'],
      parseItem: methodItem,
    }),
    pollMinMs: secondsSetting(
      'SYNC_PERIODIC_UPDATE_INTERVAL_MIN',
      'Shortest time between two reads of a source with periodic_update_interval.',
      { opal: null, default: 1, min: 0.05 },
    ),
    driftCheckIntervalMs: secondsSetting(
      'SYNC_DRIFT_CHECK_INTERVAL',
      'Time between two comparisons of all documents with what the engine holds. 0: none; see docs/catch-up.md.',
      { opal: null, default: 0 },
    ),
    retryMaxMs: secondsSetting(
      'SYNC_RETRY_MAX',
      'Longest wait before a failed read or write is tried again. Tries never end.',
      { opal: null, default: 30, min: 0.05 },
    ),
  }),
  ...inGroup('Reports', {
    reportUpdates: flagSetting(
      'SYNC_SHOULD_REPORT_ON_DATA_UPDATES',
      'Report each data update, and each policy, to the callbacks once the engine has it.',
    ),
    reportFailedUpdates: flagSetting(
      'SYNC_REPORT_FAILED_UPDATES',
      'Report an update also when its first attempt has failed, before the report of its success.',
      { opal: null },
    ),
    reportHashForm: choiceSetting(
      'SYNC_REPORT_HASH_FORM',
      'The hash in reports. bytes: SHA-256 of the fetched bytes. opal: as OPAL clients have it.',
      { opal: null, choices: HASH_FORMS, default: 'bytes' },
    ),
    updateCallbacks: jsonSetting(
      'SYNC_DEFAULT_UPDATE_CALLBACKS',
      'Callbacks of every update: {"callbacks":[url or [url, config]]}. Default: the sync server.',
      { schema: configuredCallbacks },
    ),
    updateCallbackConfig: jsonSetting(
      'SYNC_DEFAULT_UPDATE_CALLBACK_CONFIG',
      'How a callback is called that is a URL alone. Default: POST with content-type application/json.',
      { schema: callbackConfig },
    ),
  }),
  ...VERIFY_SETTINGS,

  ...inGroup('Offline mode', {
    offlineModeEnabled: flagSetting(
      'SYNC_OFFLINE_MODE_ENABLED',
      'Keep a backup, serve it from the start, and let connectivity be switched. Works with every engine.',
    ),
    backupPath: textSetting(
      'SYNC_STORE_BACKUP_PATH',
      'The backup file. Default: policysync/backup/opa.json in XDG_STATE_HOME or ~/.local/state.',
      { form: 'file' },
    ),
    backupIntervalMs: secondsSetting(
      'SYNC_STORE_BACKUP_INTERVAL',
      'Time between two backups; one is written only when something has changed.',
      { default: 60, min: 0.05 },
    ),
    startDisconnected: flagSetting(
      'SYNC_DEFAULT_SYNC_SERVER_CONNECTIVITY_DISABLED',
      'Start without the server where offline mode is on and there is a valid backup.',
      { opal: 'OPAL_DEFAULT_OPAL_SERVER_CONNECTIVITY_DISABLED', default: false },
    ),
  }),
  ...inGroup('General', { logLevel, logFormat }),
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
