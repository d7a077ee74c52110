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
} from '../lib/options.js';
import { parseKeepingSources, serverDataSources } from '../wire/data.js';

const HTTP = 'HTTP and sockets';
const POLICY = 'Policy source';
const BUNDLE = 'Bundles';
const DATA = 'Data';
const GENERAL = 'General';

/** Every setting of the sync server. Defaults that equal OPAL's are from protocol-facts 8.2. */
export const SERVER_SETTINGS = {
  host: textSetting({
    env: 'SYNC_SERVER_HOST',
    group: HTTP,
    default: '127.0.0.1',
    description: 'Address to listen on. 0.0.0.0 for all interfaces.',
  }),
  port: numberSetting({
    env: 'SYNC_SERVER_BIND_PORT',
    group: HTTP,
    default: 7002,
    max: 65_535,
    unit: 'port',
    description: 'Port to listen on; 0 takes a free one.',
  }),
  bodyLimitBytes: numberSetting({
    env: 'SYNC_BODY_LIMIT_BYTES',
    opal: null,
    group: HTTP,
    default: 16 * 1024 * 1024,
    min: 1024,
    unit: 'bytes',
    description: 'Largest request body that is accepted.',
  }),
  subscriberBufferBytes: numberSetting({
    env: 'SYNC_SUBSCRIBER_BUFFER_BYTES',
    opal: null,
    group: HTTP,
    default: 16 * 1024 * 1024,
    min: 65_536,
    unit: 'bytes',
    description: 'A subscriber that leaves more than this unread is disconnected; it catches up when it returns.',
  }),
  frameLimitBytes: numberSetting({
    env: 'SYNC_FRAME_LIMIT_BYTES',
    opal: null,
    group: HTTP,
    default: 16 * 1024 * 1024,
    min: 1024,
    unit: 'bytes',
    description: 'Largest message that is accepted from a socket.',
  }),

  policyRepoUrl: textSetting({
    env: 'SYNC_POLICY_REPO_URL',
    group: POLICY,
    form: 'git URL',
    description:
      'Git repository to follow: file, http(s), ssh, or the scp form user@host:path. Unset: the server serves no policy.',
  }),
  policyRepoBranch: textSetting({
    env: 'SYNC_POLICY_REPO_MAIN_BRANCH',
    group: POLICY,
    default: 'master',
    description: 'Branch to follow.',
  }),
  policyRepoClonePath: textSetting({
    env: 'SYNC_POLICY_REPO_CLONE_PATH',
    group: POLICY,
    form: 'folder',
    description: 'Folder of the local mirror. Default: policy-repo inside SYNC_STATE_DIR.',
  }),
  policyRepoSshKey: secretSetting({
    env: 'SYNC_POLICY_REPO_SSH_KEY',
    group: POLICY,
    description:
      'Private key for ssh: the text (an underscore stands for a newline where there is none) or a file path.',
  }),
  policyRepoCloneTimeoutMs: secondsSetting({
    env: 'SYNC_POLICY_REPO_CLONE_TIMEOUT',
    group: POLICY,
    default: 0,
    description:
      'Longest time for one fetch from the remote. 0: 10 minutes for the first one, 2 minutes for later ones.',
  }),
  policyRepoPollingIntervalMs: secondsSetting({
    env: 'SYNC_POLICY_REPO_POLLING_INTERVAL',
    group: POLICY,
    default: 0,
    description: 'Time between looks for new commits. 0: no polling.',
  }),

  policyExtensions: listSetting({
    env: 'SYNC_POLICY_REPO_POLICY_EXTENSIONS',
    group: BUNDLE,
    separator: ',',
    default: ['.rego'],
    description: 'Endings of policy modules.',
  }),
  manifestPath: textSetting({
    env: 'SYNC_POLICY_REPO_MANIFEST_PATH',
    group: BUNDLE,
    default: '',
    form: 'path',
    description: 'The root .manifest: a file, or a folder that has one. Empty: the repository root.',
  }),
  bundleIgnore: listSetting({
    env: 'SYNC_BUNDLE_IGNORE',
    group: BUNDLE,
    separator: ',',
    default: [],
    description: 'Paths left out of bundles. `dir/**` is a folder and all below; otherwise ** means the same as *.',
  }),
  bundleCacheBytes: numberSetting({
    env: 'SYNC_BUNDLE_CACHE_BYTES',
    opal: null,
    group: BUNDLE,
    default: 64 * 1024 * 1024,
    unit: 'bytes',
    description: 'Memory for bundles that are kept ready encoded.',
  }),

  dataSources: jsonSetting({
    env: 'SYNC_DATA_CONFIG_SOURCES',
    group: DATA,
    schema: serverDataSources,
    parseText: parseKeepingSources,
    form: 'JSON {"config":{"entries":[...]}} or {"external_source_url":"https://..."}',
    description: 'Base data sources that every client loads first, or the URL of an API that answers them per client.',
  }),
  updatesRetained: flagSetting({
    env: 'SYNC_DATA_UPDATES_RETAINED',
    opal: null,
    group: DATA,
    default: true,
    description: 'Answer published updates in GET /data/config, so that clients that were away catch up.',
  }),

  stateDir: textSetting({
    env: 'SYNC_STATE_DIR',
    opal: null,
    group: GENERAL,
    form: 'folder',
    description:
      'Folder of the update log and the mirror. Default: policysync/server in XDG_STATE_HOME or ~/.local/state.',
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

/** Typed values of {@link SERVER_SETTINGS}. */
export type ServerSettings = SettingValues<typeof SERVER_SETTINGS>;
