import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CLIENT_SETTINGS } from '../src/client/options.js';
import { OPAL_ALONE, readSettings } from '../src/lib/settings/options.js';
import { surelyMeant } from '../src/lib/settings/similar-name.js';
import { SERVER_SETTINGS } from '../src/server/options.js';
import { repoRoot } from './support/repo.js';
import { cellsOf } from './support/spec-page.js';

/** docs/reference/opal-compatibility.md tells the truth about settings: each of OPAL's is read here, or is in the table of those that are not. */

/** Every setting of OPAL 0.9.x, without the prefix `OPAL_` (opal-protocol P8.2). */
const OPAL_SETTINGS = {
  common: `ALLOWED_ORIGINS LOG_FORMAT_INCLUDE_PID LOG_FORMAT LOG_TRACEBACK LOG_DIAGNOSE LOG_COLORIZE LOG_SERIALIZE
    LOG_PIPE_TO_STDERR LOG_SHOW_CODE_LINE LOG_LEVEL LOG_MODULE_EXCLUDE_LIST LOG_MODULE_INCLUDE_LIST LOG_PATCH_UVICORN_LOGS
    LOG_TO_FILE LOG_FILE_PATH LOG_FILE_ROTATION LOG_FILE_RETENTION LOG_FILE_COMPRESSION LOG_FILE_SERIALIZE LOG_FILE_LEVEL
    STATISTICS_ENABLED STATISTICS_ADD_CLIENT_CHANNEL STATISTICS_REMOVE_CLIENT_CHANNEL FETCH_PROVIDER_MODULES
    FETCHING_WORKER_COUNT FETCHING_CALLBACK_TIMEOUT FETCHING_ENQUEUE_TIMEOUT GIT_SSH_KEY_FILE
    CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE AUTH_PUBLIC_KEY_FORMAT AUTH_PUBLIC_KEY
    AUTH_JWT_ALGORITHM AUTH_JWT_AUDIENCE AUTH_JWT_ISSUER POLICY_REPO_POLICY_EXTENSIONS ENABLE_METRICS ENABLE_DATADOG_APM
    HTTP_FETCHER_PROVIDER_CLIENT HTTP_FETCHER_TIMEOUT`,
  server: `WS_LOCAL_URL WS_TOKEN CLIENT_LOAD_LIMIT_NOTATION BROADCAST_URI BROADCAST_CHANNEL_NAME BROADCAST_RECONNECT_ENABLED
    BROADCAST_RECONNECT_MAX_RETRIES BROADCAST_RECONNECT_BACKOFF_MIN_SECONDS BROADCAST_RECONNECT_BACKOFF_MAX_SECONDS
    BROADCAST_REPLAY_BUFFER_SIZE BROADCAST_RESYNC_ON_RECONNECT BROADCAST_RESYNC_SETTLE_SECONDS BROADCAST_HEALTHCHECK_ENABLED
    BROADCAST_KEEPALIVE_INTERVAL BROADCAST_KEEPALIVE_TOPIC AUTH_PRIVATE_KEY_FORMAT AUTH_PRIVATE_KEY_PASSPHRASE
    AUTH_PRIVATE_KEY AUTH_JWKS_URL AUTH_JWKS_STATIC_DIR AUTH_MASTER_TOKEN POLICY_SOURCE_TYPE POLICY_REPO_URL
    POLICY_BUNDLE_URL POLICY_REPO_CLONE_PATH POLICY_REPO_CLONE_FOLDER_PREFIX POLICY_REPO_REUSE_CLONE_PATH
    POLICY_REPO_MAIN_BRANCH POLICY_REPO_SSH_KEY POLICY_REPO_MANIFEST_PATH POLICY_REPO_CLONE_TIMEOUT LEADER_LOCK_FILE_PATH
    POLICY_BUNDLE_SERVER_TYPE POLICY_BUNDLE_SERVER_TOKEN POLICY_BUNDLE_SERVER_TOKEN_ID POLICY_BUNDLE_SERVER_AWS_REGION
    POLICY_BUNDLE_TMP_PATH POLICY_BUNDLE_GIT_ADD_PATTERN REPO_WATCHER_ENABLED PUBLISHER_ENABLED MAX_CHANNELS_PER_CLIENT
    STATISTICS_WAKEUP_CHANNEL STATISTICS_STATE_SYNC_CHANNEL STATISTICS_SERVER_KEEPALIVE_CHANNEL
    STATISTICS_SERVER_KEEPALIVE_TIMEOUT ALL_DATA_TOPIC ALL_DATA_ROUTE ALL_DATA_URL DATA_CONFIG_ROUTE
    DATA_CALLBACK_DEFAULT_ROUTE DATA_CONFIG_SOURCES POLICY_REPO_WEBHOOK_SECRET POLICY_REPO_WEBHOOK_ENFORCE_BRANCH
    POLICY_REPO_WEBHOOK_PARAMS POLICY_REPO_POLLING_INTERVAL FILTER_FILE_EXTENSIONS BUNDLE_IGNORE NO_RPC_LOGS
    SERVER_WORKER_COUNT SERVER_HOST SERVER_BIND_PORT SERVER_PORT SCOPES SCOPES_REPO_CLONES_SHARDS REDIS_URL BASE_DIR
    POLICY_REFRESH_INTERVAL`,
  client: `SERVER_URL SERVER_WS_URL SERVER_PUBSUB_URL CLIENT_TOKEN CLIENT_API_SERVER_WORKER_COUNT CLIENT_API_SERVER_HOST
    CLIENT_API_SERVER_PORT WAIT_ON_SERVER_LOAD KEEP_ALIVE_INTERVAL POLICY_STORE_TYPE POLICY_STORE_URL
    POLICY_STORE_AUTH_TYPE POLICY_STORE_AUTH_TOKEN POLICY_STORE_AUTH_OAUTH_SERVER POLICY_STORE_AUTH_OAUTH_CLIENT_ID
    POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET POLICY_STORE_TLS_CLIENT_CERT POLICY_STORE_TLS_CLIENT_KEY POLICY_STORE_TLS_CA
    POLICY_STORE_CONN_RETRY POLICY_STORE_LIVENESS_PROBE_ENABLED POLICY_STORE_LIVENESS_PROBE_INTERVAL_SECONDS
    POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS POLICY_UPDATER_CONN_RETRY DATA_UPDATER_CONN_RETRY DATA_STORE_CONN_RETRY
    POLICY_STORE_POLICY_PATHS_TO_IGNORE POLICY_UPDATER_ENABLED DATA_UPDATER_ENABLED EXCLUDE_POLICY_STORE_SECRETS
    INLINE_OPA_ENABLED INLINE_OPA_EXEC_PATH INLINE_OPA_CONFIG INLINE_OPA_LOG_FORMAT OPA_V0_COMPAT INLINE_CEDAR_ENABLED
    INLINE_CEDAR_EXEC_PATH INLINE_CEDAR_CONFIG INLINE_CEDAR_LOG_FORMAT POLICY_SUBSCRIPTION_DIRS DATA_TOPICS
    DEFAULT_DATA_SOURCES_CONFIG_URL DEFAULT_DATA_URL SHOULD_REPORT_ON_DATA_UPDATES DEFAULT_UPDATE_CALLBACK_CONFIG
    DEFAULT_UPDATE_CALLBACKS OPA_HEALTH_CHECK_POLICY_ENABLED OPA_HEALTH_CHECK_TRANSACTION_LOG_PATH OPAL_CLIENT_STAT_ID
    SCOPE_ID STORE_BACKUP_PATH STORE_BACKUP_INTERVAL OFFLINE_MODE_ENABLED DEFAULT_OPAL_SERVER_CONNECTIVITY_DISABLED
    SPLIT_ROOT_DATA`,
} as const;

const NAMES = Object.values(OPAL_SETTINGS).flatMap((names) => names.split(/\s+/));

/** OPAL's names that are settings here. */
const ALIASES = new Set(
  [...Object.values(SERVER_SETTINGS), ...Object.values(CLIENT_SETTINGS)]
    .flatMap(({ aliases }) => aliases)
    .filter((name) => name.startsWith('OPAL_'))
    .map((name) => name.replace('OPAL_', '')),
);

function namesIn(text: string): string[] {
  return text.match(/[A-Z0-9_*]{3,}/g) ?? [];
}

/** The first column of the last table of the page: names, in which * stands for anything, and those that `but` takes out. */
function withoutMeaning(): { listed: string[]; isListed: (name: string) => boolean } {
  const page = readFileSync(join(repoRoot(), 'docs/reference/opal-compatibility.md'), 'utf8');
  const table = page.slice(page.indexOf('## Settings of OPAL that mean nothing here'));
  const cells = table.split('\n').flatMap((line) => (/^\| `/.test(line) ? [cellsOf(line)[0] ?? ''] : []));
  const rows = cells.map((cell) => {
    const [names = [], exceptions = []] = cell.split(' but ').map(namesIn);
    return { names, exceptions };
  });
  const fits = (pattern: string, name: string): boolean => new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(name);
  return {
    listed: rows.flatMap(({ names }) => names),
    isListed: (name) =>
      rows.some(({ names, exceptions }) => names.some((each) => fits(each, name)) && !exceptions.includes(name)),
  };
}

test('each setting of OPAL is a setting here or stands in the table of those that mean nothing, never both', () => {
  const { isListed } = withoutMeaning();
  assert.equal(new Set(NAMES).size, NAMES.length);
  assert.deepEqual(
    NAMES.filter((name) => !ALIASES.has(name) && !isListed(name)),
    [],
    'neither a setting nor in the table',
  );
  assert.deepEqual([...ALIASES].filter(isListed), [], 'a setting here, and in the table of those that mean nothing');
});

test('what is said of the settings of OPAL is about settings that it has', () => {
  const known = new Set(NAMES);
  assert.deepEqual(
    [...ALIASES].filter((name) => !known.has(name)),
    [],
    'an alias that OPAL has not',
  );
  const { listed } = withoutMeaning();
  assert(listed.length > 20, `only ${listed.length} names were read`);
  const fits = (pattern: string): boolean =>
    NAMES.some((name) => new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(name));
  assert.deepEqual(
    listed.filter((pattern) => !fits(pattern)),
    [],
    'in the table, but no setting of OPAL',
  );
});

test('no setting of OPAL is taken for a slip; those that could be are listed, and no others', () => {
  const env = Object.fromEntries(NAMES.filter((name) => !ALIASES.has(name)).map((name) => [`OPAL_${name}`, 'x']));
  for (const settings of [SERVER_SETTINGS, CLIENT_SETTINGS]) {
    const others = [...ALIASES].map((name) => `OPAL_${name}`);
    const loaded = readSettings({ logLevel: settings.logLevel }, { env }, others);
    assert.deepEqual(loaded.unknown, Object.keys(env).sort());
    const alike = Object.keys(env).filter((name) => surelyMeant(name, others).length > 0);
    assert.deepEqual(alike.sort(), [...OPAL_ALONE]);
  }
});

test("OPAL's names of log levels are taken, in any case; other words are not", () => {
  for (const settings of [SERVER_SETTINGS, CLIENT_SETTINGS]) {
    const level = (text: string): unknown =>
      readSettings({ logLevel: settings.logLevel }, { env: { OPAL_LOG_LEVEL: text } }).values.logLevel;
    const given = ['TRACE', 'DEBUG', 'INFO', 'Success', 'warning', 'ERROR', 'CRITICAL'];
    assert.deepEqual(given.map(level), ['debug', 'debug', 'info', 'info', 'warn', 'error', 'error']);
    for (const other of ['loud', 'constructor']) assert.throws(() => level(other), { code: 'config_invalid' });
  }
});
