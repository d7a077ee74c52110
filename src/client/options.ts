import * as z from 'zod';
import { VERIFY_SETTINGS } from '../auth/settings.js';
import { listenerTlsSettings, SHARED_SETTINGS } from '../http/settings.js';
import { placeRule } from '../lib/net/place-rules.js';
import { withoutEnd } from '../lib/run/without-end.js';
import type { SettingValues } from '../lib/settings/setting.js';
import {
  bytesSetting,
  choiceSetting,
  flagSetting,
  hostSetting,
  inGroup,
  jsonSetting,
  lineSetting,
  listSetting,
  numberSetting,
  opalFlagSetting,
  pairsSetting,
  pathSetting,
  secondsSetting,
  secretSetting,
  textSetting,
  tokenSetting,
  urlSetting,
} from '../lib/settings/setting-kinds.js';
import { FETCH_METHODS } from '../wire/data.js';
import { checkedLabels, parseLabels } from '../wire/labels.js';
import { MAX_CLIENT_ID } from '../wire/session.js';
import { actionSearchRules, decisionRules, rulesText } from './authzen/decision-rules.js';
import { callbackConfig, configuredCallbacks } from './report/callbacks.js';
import { HASH_FORMS } from './report/report-hash.js';

const MIB = 1024 * 1024;
/** What a client may be called: `/clients/..` is the address of something else. */
const CLIENT_NAME = { form: 'name', maxCharacters: MAX_CLIENT_ID, not: ['.', '..'] };

const { allowedHosts, metricsAccess, drainDelayMs, engineV0Compat, logLevel, logFormat } = SHARED_SETTINGS;
const tls = listenerTlsSettings('SYNC_CLIENT_API_TLS', { name: 'client API', protocols: 'https' });

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
    serverUrl: urlSetting('SYNC_SERVER_URL', 'URL of the sync server (PolicySync or OPAL).', {
      default: 'http://localhost:7002',
    }),
    serverWsUrl: urlSetting(
      'SYNC_SERVER_WS_URL',
      'WebSocket URL of the server. Default: SYNC_SERVER_URL with ws instead of http.',
    ),
    clientToken: {
      ...tokenSetting(
        'SYNC_CLIENT_TOKEN',
        'Bearer token that the client sends to the server. A file with it is read again at each connection.',
      ),
      isReread: true,
    },
    selfSignedAllowed: flagSetting(
      'SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED',
      'Trust SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE in addition to the system. Verification is never off.',
    ),
    trustedCaFile: pathSetting(
      'SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE',
      'PEM certificate authority for server, data sources and callbacks.',
      { form: 'file' },
    ),
    clientCertFile: pathSetting('SYNC_CLIENT_TLS_CERT_FILE', 'PEM client certificate for a server that requires one.', {
      opal: null,
      form: 'file',
    }),
    clientKeyFile: pathSetting('SYNC_CLIENT_TLS_KEY_FILE', 'PEM key of that certificate, without a passphrase.', {
      opal: null,
      form: 'file',
    }),
    keepAliveIntervalMs: secondsSetting(
      'SYNC_KEEP_ALIVE_INTERVAL',
      'Interval of RPC pings, in addition to WebSocket pings. 0: none.',
      { default: 0 },
    ),
    scopeId: textSetting('SYNC_SCOPE_ID', 'Scope of the policy topics.', { default: 'default' }),
    statisticsEnabled: flagSetting(
      'SYNC_STATISTICS_ENABLED',
      'Send the id of this client to the server for its statistics.',
    ),
    clientStatId: lineSetting(
      'SYNC_CLIENT_STAT_ID',
      'Id for the statistics. Default: CLIENT_ and 32 hex digits, new at each start.',
      { opal: 'OPAL_OPAL_CLIENT_STAT_ID', ...CLIENT_NAME },
    ),
    clientId: lineSetting(
      'SYNC_CLIENT_ID',
      'Stable, unique name of this client. Default: the host name and a hash of the addresses of server, engine and client API.',
      { opal: null, ...CLIENT_NAME },
    ),
    clientLabels: pairsSetting(
      'SYNC_CLIENT_LABELS',
      'What this client is, for people who look at the fleet: at most 16 labels, each with a key of at most 63 letters, digits, . _ / - and a value of at most 63 characters.',
      { opal: null, form: 'app=billing,zone=a', read: parseLabels, check: checkedLabels },
    ),
    remoteActions: flagSetting(
      'SYNC_CLIENT_REMOTE_ACTIONS',
      'Let holders of a datasource token ask this client over the server to refresh, prune, check for drift, and log with another level. false: it only tells of itself.',
      { opal: null, default: true },
    ),
    reconnectMaxMs: secondsSetting('SYNC_RECONNECT_MAX', 'Maximum delay between two attempts to connect.', {
      opal: null,
      default: 30,
      min: 0.1,
    }),

    cutOffIsUnhealthy: flagSetting(
      'SYNC_SERVER_CUT_OFF_UNHEALTHY',
      'Be unhealthy (GET /healthy is 503) while the server is cut off from its backbone. false: GET /healthy only says so, with since when.',
      { opal: null },
    ),
    serverAnswerLimitBytes: bytesSetting(
      'SYNC_SERVER_ANSWER_LIMIT_BYTES',
      'Maximum size of a server response: a policy bundle, or a list of entries with inline data.',
      { default: 256 * MIB, min: 1024 },
    ),
    waitOnServerLoad: flagSetting(
      'SYNC_WAIT_ON_SERVER_LOAD',
      'Wait until GET /loadlimit of the server returns 200 before following it.',
    ),
  }),
  ...inGroup('Client API', {
    host: hostSetting('SYNC_CLIENT_API_SERVER_HOST', 'Address of the client API.', { default: '127.0.0.1' }),
    port: numberSetting('SYNC_CLIENT_API_SERVER_PORT', 'Port of the client API; 0 picks a free one.', {
      default: 7000,
      max: 65_535,
      unit: 'port',
    }),
    metricsAccess,
    drainDelayMs,

    allowedHosts,

    apiTlsCertFile: tls.cert,
    apiTlsKeyFile: tls.key,
    apiTlsCaFile: tls.ca,
  }),
  ...inGroup('Policy engine', {
    engine: choiceSetting(
      'SYNC_ENGINE',
      'inline: OPA as a child process. external: the OPA at SYNC_POLICY_STORE_URL. embedded: OPA inside the package. Default: see docs/how-to/engine.md.',
      { opal: null, choices: ['inline', 'external', 'embedded'] },
    ),
    engineUrl: urlSetting(
      'SYNC_POLICY_STORE_URL',
      'URL of the policy engine: where the inline or embedded engine listens, or an external one.',
      { default: 'http://localhost:8181' },
    ),
    inlineEngineEnabled: flagSetting(
      'SYNC_INLINE_ENGINE_ENABLED',
      'false: use the external engine at SYNC_POLICY_STORE_URL, as SYNC_ENGINE=external does.',
      { opal: 'OPAL_INLINE_OPA_ENABLED', default: true },
    ),
    inlineEngineExecPath: pathSetting(
      'SYNC_INLINE_ENGINE_EXEC_PATH',
      'Path of the OPA executable. Default: searched for, see docs/how-to/engine.md.',
      { opal: 'OPAL_INLINE_OPA_EXEC_PATH', form: 'file' },
    ),
    inlineEngineOpen: flagSetting(
      'SYNC_INLINE_ENGINE_OPEN',
      'Let every caller of the inline engine write policy and data, as OPAL does. false: every caller may query, only this client writes.',
      { opal: null },
    ),
    inlineEngineBuiltinsOff: listSetting(
      'SYNC_INLINE_ENGINE_BUILTINS_OFF',
      'Built-in functions that policies may not call, for example opa.runtime,http.send. The OPA program then checks each commit first.',
      { opal: null },
    ),
    inlineEngineOrigins: listSetting(
      'SYNC_INLINE_ENGINE_ALLOWED_ORIGINS',
      'Origins whose web pages may query the inline engine, besides its own; * allows all.',
      { opal: null },
    ),
    inlineEngineEnv: listSetting(
      'SYNC_INLINE_ENGINE_ENV',
      'Names of additional environment variables for the inline engine; every policy can read them by opa.runtime().env.',
      { opal: null },
    ),
    inlineEngineConfig: jsonSetting(
      'SYNC_INLINE_ENGINE_CONFIG',
      'Options of the OPA program, for example {"addr":"0.0.0.0:8181"}.',
      { opal: 'OPAL_INLINE_OPA_CONFIG', schema: inlineEngineConfig },
    ),
    inlineEngineLogFormat: choiceSetting(
      'SYNC_INLINE_ENGINE_LOG_FORMAT',
      "How much of the engine's log is forwarded. Errors always are.",
      { opal: 'OPAL_INLINE_OPA_LOG_FORMAT', choices: ['none', 'minimal', 'http', 'full'], default: 'none' },
    ),
    embeddedDecisionTimeoutMs: secondsSetting(
      'SYNC_EMBEDDED_ENGINE_DECISION_TIMEOUT',
      'Timeout of a decision of the embedded engine. The thread or process that exceeds it is replaced.',
      { opal: null, default: 5, min: 0.01 },
    ),
    embeddedMemoryLimitBytes: bytesSetting(
      'SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT',
      'Maximum memory of the Go code of OPA, and of the thread that evaluates, each.',
      { default: 1024 * MIB, min: 128 * MIB, max: 4096 * MIB },
    ),
    embeddedEntrypoints: listSetting(
      'SYNC_EMBEDDED_ENGINE_ENTRYPOINTS',
      'Paths of decisions that the embedded engine compiles at the start, for example app/rbac/allow. Others are compiled once they are asked for a second time.',
      { opal: null, parseItem: decisionPathItem },
    ),
    embeddedMaxEntrypoints: numberSetting(
      'SYNC_EMBEDDED_ENGINE_MAX_ENTRYPOINTS',
      'Maximum number of compiled decisions; others are interpreted.',
      { opal: null, default: 200, max: 10_000 },
    ),
    embeddedHttpSend: flagSetting(
      'SYNC_EMBEDDED_ENGINE_HTTP_SEND',
      'Let policies of the embedded engine call http.send, to hosts that SYNC_FETCH_ALLOW and SYNC_FETCH_DENY allow.',
      { opal: null },
    ),
    embeddedIdleMs: secondsSetting(
      'SYNC_EMBEDDED_ENGINE_IDLE',
      'Time without work after which the embedded engine unloads its compiler.',
      { opal: null, default: 60, min: 0.05 },
    ),
    embeddedThread: choiceSetting(
      'SYNC_EMBEDDED_ENGINE_THREAD',
      'Thread that evaluates compiled decisions. main: fastest within the process, without timeout and memory limit.',
      { opal: null, choices: ['worker', 'main'], default: 'worker' },
    ),
    engineAuthType: choiceSetting('SYNC_POLICY_STORE_AUTH_TYPE', 'How the client authenticates to the engine.', {
      choices: ['none', 'token', 'oauth', 'tls'],
      default: 'none',
    }),
    engineAuthToken: tokenSetting('SYNC_POLICY_STORE_AUTH_TOKEN', 'For token: the bearer token.'),
    engineOauthServer: urlSetting(
      'SYNC_POLICY_STORE_AUTH_OAUTH_SERVER',
      'For oauth: the token endpoint (client credentials).',
    ),
    engineOauthClientId: textSetting('SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID', 'For oauth: the client id.'),
    engineOauthClientSecret: secretSetting(
      'SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET',
      'For oauth: the client secret.',
    ),
    engineTlsCert: pathSetting('SYNC_POLICY_STORE_TLS_CLIENT_CERT', 'For tls: PEM client certificate.', {
      form: 'file',
    }),
    engineTlsKey: pathSetting(
      'SYNC_POLICY_STORE_TLS_CLIENT_KEY',
      'For tls: PEM key of that certificate, without a passphrase.',
      { form: 'file' },
    ),
    engineTlsCa: pathSetting(
      'SYNC_POLICY_STORE_TLS_CA',
      "PEM certificate authority of the engine's certificate; no other one is trusted for it.",
      { form: 'file' },
    ),
    engineV0Compat,
    engineTimeoutMs: secondsSetting('SYNC_POLICY_STORE_TIMEOUT', 'Timeout of a request to the engine.', {
      opal: null,
      default: 30,
      min: 0.1,
    }),
    probeEnabled: flagSetting(
      'SYNC_POLICY_STORE_LIVENESS_PROBE_ENABLED',
      'Check in the background that the engine responds and still holds the state of this client.',
      { default: true },
    ),
    probeIntervalMs: secondsSetting('SYNC_POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS', 'Interval of these checks.', {
      default: 10,
      min: 0.05,
    }),
    probeTimeoutMs: secondsSetting('SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS', 'Timeout of a check.', {
      default: 2,
      min: 0.05,
    }),

    healthDocument: opalFlagSetting(
      'SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED',
      "Maintain the health document at system.sync in the engine; set by OPAL's name, at system.opal, too.",
      { opal: 'OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED' },
    ),
    excludeStoreSecrets: flagSetting(
      'SYNC_EXCLUDE_POLICY_STORE_SECRETS',
      'Leave secrets out of GET /policy-store/config. Without authentication they always are.',
      { default: true },
    ),
  }),
  ...inGroup('AuthZEN', {
    authzenDecision: jsonSetting(
      'SYNC_AUTHZEN_DECISION',
      'Turns the AuthZEN API on: the rule that decides, for example authzen/allow, or a list that chooses one; see docs/how-to/embed.md.',
      { opal: null, schema: decisionRules, form: 'path|JSON', parseText: rulesText },
    ),
    authzenSearchSubject: jsonSetting(
      'SYNC_AUTHZEN_SEARCH_SUBJECT',
      'The rule that lists subjects, in the same form. Unset: there is no subject search.',
      { opal: null, schema: decisionRules, form: 'path|JSON', parseText: rulesText },
    ),
    authzenSearchResource: jsonSetting(
      'SYNC_AUTHZEN_SEARCH_RESOURCE',
      'The rule that lists resources, in the same form. Unset: there is no resource search.',
      { opal: null, schema: decisionRules, form: 'path|JSON', parseText: rulesText },
    ),
    authzenSearchAction: jsonSetting(
      'SYNC_AUTHZEN_SEARCH_ACTION',
      'The rule that lists actions, in the same form without "action". Unset: there is no action search.',
      { opal: null, schema: actionSearchRules, form: 'path|JSON', parseText: rulesText },
    ),
    authzenUrl: urlSetting(
      'SYNC_AUTHZEN_URL',
      'Public address of this client for the AuthZEN configuration, for example https://pdp.example.com. Default: as it was asked for.',
      { opal: null },
    ),
    authzenMaxEvaluations: numberSetting(
      'SYNC_AUTHZEN_MAX_EVALUATIONS',
      'Maximum number of evaluations in a request.',
      {
        opal: null,
        default: 1000,
        min: 1,
        max: 100_000,
      },
    ),
    authzenMaxResults: numberSetting(
      'SYNC_AUTHZEN_MAX_RESULTS',
      'Maximum number of results in a response to a search; the next page has more.',
      { opal: null, default: 1000, min: 1, max: 100_000 },
    ),
  }),
  ...inGroup('Policy', {
    policyUpdaterEnabled: flagSetting('SYNC_POLICY_UPDATER_ENABLED', 'Keep the policy of the engine up to date.', {
      default: true,
    }),
    policyDirs: listSetting(
      'SYNC_POLICY_SUBSCRIPTION_DIRS',
      'Directories of the policy repository to subscribe to. Files above them, such as the root data.json, are left out.',
      {
        separator: ':',
        default: ['.'],
      },
    ),
    firstPolicyWaitMs: secondsSetting(
      'SYNC_FIRST_POLICY_WAIT',
      'Longest time that the first policy of a client waits for the documents of its first load, before which nothing is decided. 0: none.',
      { opal: null, default: 30 },
    ),
  }),
  ...inGroup('Data', {
    dataUpdaterEnabled: flagSetting('SYNC_DATA_UPDATER_ENABLED', 'Keep the data of the engine up to date.', {
      default: true,
    }),
    dataTopics: listSetting('SYNC_DATA_TOPICS', 'Data topics to subscribe to.', { default: ['policy_data'] }),
    dataConfigUrl: urlSetting(
      'SYNC_DEFAULT_DATA_SOURCES_CONFIG_URL',
      'URL of the data source entries. Default: /data/config of SYNC_SERVER_URL.',
    ),
    fetchConcurrency: numberSetting(
      'SYNC_FETCHING_WORKER_COUNT',
      'Concurrent fetches. Fetches that take over a second have their own limit: the same number, or 24 if that is more.',
      { opal: 'OPAL_FETCHING_WORKER_COUNT', default: 16, min: 1, max: 1000 },
    ),
    fetchPerHost: numberSetting('SYNC_FETCH_PER_HOST', 'Concurrent fetches per host; per database, at most 6.', {
      opal: null,
      default: 12,
      min: 1,
      max: 1000,
    }),
    fetchTimeoutMs: secondsSetting(
      'SYNC_HTTP_FETCHER_TIMEOUT',
      'Timeout of a data source: to connect, to respond, and between two chunks of a body.',
      { default: 5, min: 0.05 },
    ),
    fetchTotalTimeoutMs: secondsSetting('SYNC_FETCH_TOTAL_TIMEOUT', 'Timeout of a whole fetch.', {
      opal: null,
      default: 300,
      min: 0.05,
    }),
    fetchLimitBytes: bytesSetting('SYNC_FETCH_LIMIT_BYTES', 'Maximum size of a document.', {
      default: 1024 * MIB,
      min: 1024,
    }),
    fetchProviderModules: listSetting(
      'SYNC_FETCH_PROVIDER_MODULES',
      'ES modules whose default export is a fetch provider, as file paths; see docs/how-to/data-sources.md.',
      { opal: null, ofPaths: true },
    ),
    fetchAllow: listSetting(
      'SYNC_FETCH_ALLOW',
      'Allowed hosts of data sources, callbacks and redirects: names, .suffixes, addresses, ranges, each with an optional :port. Empty: all but link-local addresses. See docs/how-to/secure.md.',
      { opal: null, parseItem: placeItem },
    ),
    fetchDeny: listSetting(
      'SYNC_FETCH_DENY',
      'Denied hosts, in the same form; takes precedence over SYNC_FETCH_ALLOW.',
      { opal: null, parseItem: placeItem },
    ),
    fetchMethods: listSetting('SYNC_FETCH_METHODS', 'HTTP methods that data sources and callbacks may use.', {
      opal: null,
      default: ['GET', 'POST'],
      parseItem: methodItem,
    }),
    pollMinMs: secondsSetting(
      'SYNC_PERIODIC_UPDATE_INTERVAL_MIN',
      'Minimum interval of a source with periodic_update_interval.',
      { opal: null, default: 1, min: 0.05 },
    ),
    driftCheckIntervalMs: secondsSetting(
      'SYNC_DRIFT_CHECK_INTERVAL',
      'Interval at which all documents are compared with those of the engine. 0: never; see docs/how-to/offline.md.',
      { opal: null, default: 0 },
    ),
    retryMaxMs: secondsSetting(
      'SYNC_RETRY_MAX',
      'Maximum delay before a failed fetch or write is retried. Retries never end.',
      { opal: null, default: 30, min: 0.05 },
    ),
  }),
  ...inGroup('Reports', {
    reportUpdates: flagSetting(
      'SYNC_SHOULD_REPORT_ON_DATA_UPDATES',
      'Report each data update and each policy to the callbacks once the engine holds it.',
    ),
    reportFailedUpdates: flagSetting(
      'SYNC_REPORT_FAILED_UPDATES',
      'Report an update when its first attempt fails, too, before the report of its success.',
      { opal: null },
    ),
    reportHashForm: choiceSetting(
      'SYNC_REPORT_HASH_FORM',
      'Hash in reports. bytes: SHA-256 of the fetched bytes. opal: the hash that OPAL clients compute.',
      { opal: null, choices: HASH_FORMS, default: 'bytes' },
    ),
    updateCallbacks: jsonSetting(
      'SYNC_DEFAULT_UPDATE_CALLBACKS',
      'Callbacks of every update: {"callbacks":[url or [url, config]]}. Default: the sync server.',
      { schema: configuredCallbacks },
    ),
    updateCallbackConfig: jsonSetting(
      'SYNC_DEFAULT_UPDATE_CALLBACK_CONFIG',
      'Request of a callback that is a URL alone. Default: POST with content-type application/json.',
      { schema: callbackConfig },
    ),
  }),
  ...VERIFY_SETTINGS,

  ...inGroup('Offline mode', {
    offlineModeEnabled: flagSetting(
      'SYNC_OFFLINE_MODE_ENABLED',
      'Keep a backup, load it at the start, and allow connectivity to be switched. Works with every engine.',
    ),
    backupPath: pathSetting(
      'SYNC_STORE_BACKUP_PATH',
      'Backup file. Default: policysync/backup/opa.json in XDG_STATE_HOME or ~/.local/state.',
      { form: 'file' },
    ),
    backupIntervalMs: secondsSetting(
      'SYNC_STORE_BACKUP_INTERVAL',
      'Interval of backups; a backup is written only after a change.',
      { default: 60, min: 0.05 },
    ),
    startDisconnected: flagSetting(
      'SYNC_DEFAULT_SYNC_SERVER_CONNECTIVITY_DISABLED',
      'Start disconnected from the server if offline mode is on and there is a valid backup.',
      { opal: 'OPAL_DEFAULT_OPAL_SERVER_CONNECTIVITY_DISABLED', default: false },
    ),
  }),
  ...inGroup('General', { logLevel, logFormat }),
};

/** A path of a decision, as after `/v1/data/`. */
function decisionPathItem(text: string): string {
  const path = withoutEnd(text.replace(/^\/+/, ''), '/');
  if (path.split('/').every((part) => part !== '')) return path;
  throw new Error('must be a list of paths such as app/rbac/allow');
}

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

/** The settings of how the client authenticates to its engine. */
export type EngineAuthSettings = Pick<
  ClientSettings,
  Extract<keyof ClientSettings, 'engineUrl' | `engineAuth${string}` | `engineOauth${string}`>
>;
