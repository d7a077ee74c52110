import { z } from 'zod';
import { LOG_LEVELS } from '../lib/log.js';
import {
  choiceSetting,
  flagSetting,
  jsonSetting,
  listSetting,
  numberSetting,
  type SettingValues,
  secondsSetting,
  secretSetting,
  textSetting,
  urlSetting,
} from '../lib/options.js';

const SERVER = 'Sync server';
const API = 'Client API';
const ENGINE = 'Policy engine';
const POLICY = 'Policy';
const DATA = 'Data';
const GENERAL = 'General';

/** SYNC_INLINE_ENGINE_CONFIG: options of the engine's own program (protocol-facts 6.7). */
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

/** Every setting of the sync client. Defaults that equal OPAL's are from protocol-facts 8.2. */
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
  reconnectMaxMs: secondsSetting({
    env: 'SYNC_RECONNECT_MAX',
    opal: null,
    group: SERVER,
    default: 30,
    min: 0.1,
    description: 'Longest wait between two attempts to connect.',
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
  engineV0Compat: flagSetting({
    env: 'SYNC_ENGINE_V0_COMPAT',
    opal: 'OPAL_OPA_V0_COMPAT',
    group: ENGINE,
    default: true,
    description: 'Read modules as Rego v0 unless they import rego.v1. false: Rego v1.',
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
    description: 'Time between two looks.',
  }),
  probeTimeoutMs: secondsSetting({
    env: 'SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS',
    group: ENGINE,
    default: 2,
    min: 0.05,
    description: 'Longest wait of one look.',
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
    default: 6,
    min: 1,
    max: 1000,
    description: 'Data sources that are read at the same time.',
  }),
  fetchPerHost: numberSetting({
    env: 'SYNC_FETCH_PER_HOST',
    opal: null,
    group: DATA,
    default: 6,
    min: 1,
    max: 1000,
    description: 'Of these, at the same host.',
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
  retryMaxMs: secondsSetting({
    env: 'SYNC_RETRY_MAX',
    opal: null,
    group: DATA,
    default: 30,
    min: 0.05,
    description: 'Longest wait before a failed read or write is tried again. Tries never end.',
  }),

  logLevel: choiceSetting({
    env: 'SYNC_LOG_LEVEL',
    group: GENERAL,
    choices: LOG_LEVELS,
    default: 'info',
    ignoreCase: true,
    description: 'Least severe level that is logged.',
  }),
  logFormat: choiceSetting({
    env: 'SYNC_LOG_FORMAT',
    opal: null,
    group: GENERAL,
    choices: ['auto', 'json', 'pretty'],
    default: 'auto',
    description: 'auto: pretty on a terminal, otherwise one JSON object a line.',
  }),
};

/** Typed values of {@link CLIENT_SETTINGS}. */
export type ClientSettings = SettingValues<typeof CLIENT_SETTINGS>;
