import * as z from 'zod';
import { ISSUE_SETTINGS, VERIFY_SETTINGS } from '../auth/settings.js';
import { sharedSettings } from '../http/settings.js';
import {
  choiceSetting,
  flagSetting,
  jsonSetting,
  listSetting,
  numberSetting,
  rateSetting,
  type SettingValues,
  secondsSetting,
  secretSetting,
  textSetting,
  urlSetting,
} from '../lib/options.js';
import { serverDataSources } from '../wire/data.js';
import { parseKeepingSources } from '../wire/inline-data.js';
import { readWebhookParams, webhookParams } from './webhook/params.js';

const HTTP = 'HTTP and sockets';
const POLICY = 'Policy source';
const BUNDLE = 'Bundles';
const DATA = 'Data';
const GENERAL = 'General';

const { allowedHosts, metricsAccess, logLevel, logFormat } = sharedSettings(HTTP);

/** Every setting of the sync server. Defaults that equal OPAL's are from opal-protocol P8.2. */
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
  tlsCertFile: textSetting({
    env: 'SYNC_SERVER_TLS_CERT_FILE',
    opal: null,
    group: HTTP,
    form: 'file',
    description: 'PEM certificate of the server, with its chain: it then answers https and wss only.',
  }),
  tlsKeyFile: textSetting({
    env: 'SYNC_SERVER_TLS_KEY_FILE',
    opal: null,
    group: HTTP,
    form: 'file',
    description: 'PEM key of that certificate, without a passphrase.',
  }),
  tlsCaFile: textSetting({
    env: 'SYNC_SERVER_TLS_CA_FILE',
    opal: null,
    group: HTTP,
    form: 'file',
    description: 'PEM authority: callers must then show a certificate that it has signed.',
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
  readerTimeoutMs: secondsSetting({
    env: 'SYNC_READER_TIMEOUT',
    opal: null,
    group: HTTP,
    default: 30,
    min: 0.1,
    max: 3600,
    description: 'A caller that takes nothing of its answer for this long, or a little longer, is cut off.',
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

  rateLimit: rateSetting({
    env: 'SYNC_RATE_LIMIT',
    opal: null,
    group: HTTP,
    default: '10000 per second',
    description: 'Requests of one address, sockets that open included; more are answered 429. Health checks are free.',
  }),
  clientLoadLimit: rateSetting({
    env: 'SYNC_CLIENT_LOAD_LIMIT_NOTATION',
    group: HTTP,
    default: 'none',
    description: 'How many clients may start, over all: what GET /loadlimit lets through.',
  }),
  maxConnections: numberSetting({
    env: 'SYNC_MAX_CONNECTIONS',
    opal: null,
    group: HTTP,
    default: 20_000,
    min: 1,
    unit: 'connections',
    description: 'Connections at one time, sockets included; more are not accepted.',
  }),
  connectionsPerAddress: numberSetting({
    env: 'SYNC_CONNECTIONS_PER_ADDRESS',
    opal: null,
    group: HTTP,
    default: 4000,
    min: 1,
    unit: 'connections',
    description:
      'Connections of one address on which nobody was let in yet (by a token, where tokens are asked for); more are cut.',
  }),
  unauthenticatedBytesPerAddress: numberSetting({
    env: 'SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS',
    opal: null,
    group: HTTP,
    default: 16 * 1024 * 1024,
    min: 5 * 1024 * 1024,
    unit: 'bytes',
    description:
      'Bytes of webhooks and other bodies without a token that one address may have under way; more are answered 429.',
  }),
  trustedProxies: listSetting({
    env: 'SYNC_TRUSTED_PROXIES',
    opal: null,
    group: HTTP,
    separator: ',',
    default: [],
    description:
      'Addresses and networks of load balancers (10.0.0.0/8) whose X-Forwarded-For says where a caller is, for all limits per address.',
  }),
  allowedHosts,
  allowedOrigins: listSetting({
    env: 'SYNC_ALLOWED_ORIGINS',
    group: HTTP,
    separator: ',',
    default: [],
    description: 'Origins whose web pages may call this API (CORS); * for all. Empty: none.',
  }),
  statisticsEnabled: flagSetting({
    env: 'SYNC_STATISTICS_ENABLED',
    group: HTTP,
    default: false,
    description: 'Answer GET /statistics and GET /stats.',
  }),
  heartbeatIntervalMs: secondsSetting({
    env: 'SYNC_HEARTBEAT_INTERVAL',
    opal: null,
    group: HTTP,
    default: 15,
    min: 0.1,
    max: 3600,
    description: 'How often clients are told where the log and the policy stand, so that they notice what they missed.',
  }),
  clientMemoryMs: secondsSetting({
    env: 'SYNC_CLIENT_MEMORY',
    opal: null,
    group: HTTP,
    default: 3600,
    description: 'How long a client that left is still listed, as away.',
  }),
  metricsAccess,
  maxChannelsPerClient: numberSetting({
    env: 'SYNC_MAX_CHANNELS_PER_CLIENT',
    group: HTTP,
    default: 15,
    min: 1,
    unit: 'connections',
    description: 'Connections of one client id that GET /statistics lists.',
  }),

  policySourceType: choiceSetting({
    env: 'SYNC_POLICY_SOURCE_TYPE',
    group: POLICY,
    choices: ['GIT', 'API'],
    default: 'GIT',
    ignoreCase: true,
    description: 'Where policy comes from: GIT, a branch of a repository; API, bundle.tar.gz on an HTTP or S3 server.',
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
    description: 'Folder of the local repository. Default: policy-repo or policy-bundle inside SYNC_STATE_DIR.',
  }),
  policyRepoSshKey: secretSetting({
    env: 'SYNC_POLICY_REPO_SSH_KEY',
    group: POLICY,
    description:
      'Private key for ssh: the text (an underscore stands for a newline where there is none) or a file path.',
  }),
  policyRepoEnv: listSetting({
    env: 'SYNC_POLICY_REPO_ENV',
    opal: null,
    group: POLICY,
    separator: ',',
    default: [],
    description:
      'Names of more environment variables for git and ssh, for a credential helper; see "Child processes" in docs/security.md.',
  }),
  policyRepoCloneTimeoutMs: secondsSetting({
    env: 'SYNC_POLICY_REPO_CLONE_TIMEOUT',
    group: POLICY,
    default: 0,
    description:
      'Longest time for one fetch from the remote. 0: 10 minutes for the first one and for bundles, 2 minutes for later ones.',
  }),
  policyRepoPollingIntervalMs: secondsSetting({
    env: 'SYNC_POLICY_REPO_POLLING_INTERVAL',
    group: POLICY,
    default: 0,
    description: 'Time between looks for new commits or bundles. 0: no polling.',
  }),
  policyRepoWebhookSecret: secretSetting({
    env: 'SYNC_POLICY_REPO_WEBHOOK_SECRET',
    group: POLICY,
    description: 'Secret that the git service and POST /webhook share. Unset: everyone is believed.',
  }),
  policyRepoWebhookParams: jsonSetting({
    env: 'SYNC_POLICY_REPO_WEBHOOK_PARAMS',
    group: POLICY,
    schema: webhookParams,
    parseText: readWebhookParams,
    form: 'github|gitlab|azure|bitbucket, or JSON {"secret_header_name":...}',
    description: 'How the git service sends its webhooks. Default: github.',
  }),
  policyRepoWebhookEnforceBranch: flagSetting({
    env: 'SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH',
    group: POLICY,
    default: false,
    description: 'Ignore webhooks for pushes to other branches than SYNC_POLICY_REPO_MAIN_BRANCH.',
  }),

  policyBundleUrl: urlSetting({
    env: 'SYNC_POLICY_BUNDLE_URL',
    group: POLICY,
    description: 'Base address of the bundle server; bundle.tar.gz below it is followed. For S3: with the bucket.',
  }),
  policyBundleServerType: choiceSetting({
    env: 'SYNC_POLICY_BUNDLE_SERVER_TYPE',
    alsoNamed: ['POLICY_BUNDLE_SERVER_TYPE'],
    group: POLICY,
    choices: ['HTTP', 'AWS-S3'],
    default: 'HTTP',
    ignoreCase: true,
    description: 'HTTP: the token, if set, is sent as bearer token. AWS-S3: requests are signed (Signature Version 4).',
  }),
  policyBundleServerTokenId: secretSetting({
    env: 'SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID',
    alsoNamed: ['POLICY_BUNDLE_SERVER_TOKEN_ID'],
    group: POLICY,
    description: 'Access key id for AWS-S3.',
  }),
  policyBundleServerToken: secretSetting({
    env: 'SYNC_POLICY_BUNDLE_SERVER_TOKEN',
    alsoNamed: ['POLICY_BUNDLE_SERVER_TOKEN'],
    group: POLICY,
    description: 'Bearer token for HTTP; secret access key for AWS-S3.',
  }),
  policyBundleServerAwsRegion: textSetting({
    env: 'SYNC_POLICY_BUNDLE_SERVER_AWS_REGION',
    alsoNamed: ['POLICY_BUNDLE_SERVER_AWS_REGION'],
    group: POLICY,
    default: 'us-east-1',
    description: 'Region for AWS-S3.',
  }),
  policyBundleLimitBytes: numberSetting({
    env: 'SYNC_POLICY_BUNDLE_LIMIT_BYTES',
    opal: null,
    group: POLICY,
    default: 64 * 1024 * 1024,
    min: 1,
    unit: 'bytes',
    description: 'Largest bundle.tar.gz that is accepted.',
  }),
  policyBundleLimitUnpackedBytes: numberSetting({
    env: 'SYNC_POLICY_BUNDLE_LIMIT_UNPACKED_BYTES',
    opal: null,
    group: POLICY,
    default: 256 * 1024 * 1024,
    min: 1,
    unit: 'bytes',
    description: 'Largest tar archive that a bundle.tar.gz may unpack to.',
  }),
  policyBundleLimitEntries: numberSetting({
    env: 'SYNC_POLICY_BUNDLE_LIMIT_ENTRIES',
    opal: null,
    group: POLICY,
    default: 50_000,
    min: 1,
    unit: 'entries',
    description: 'Most files and folders that a bundle.tar.gz may have.',
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
  allowInsecureExternalSource: flagSetting({
    env: 'SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE',
    opal: null,
    group: DATA,
    default: false,
    description: 'Accept an external_source_url with http, where the tokens of clients travel in clear.',
  }),
  updatesRetained: flagSetting({
    env: 'SYNC_DATA_UPDATES_RETAINED',
    opal: null,
    group: DATA,
    default: true,
    description: 'Answer published updates in GET /data/config, so that clients that were away catch up.',
  }),

  updatesRetainDefault: jsonSetting({
    env: 'SYNC_DATA_UPDATES_RETAIN_DEFAULT',
    opal: null,
    group: DATA,
    schema: z.union([z.boolean(), z.number().min(0)]),
    form: 'true|false|seconds',
    description: 'Whether updates that do not say so themselves are kept for those who come later. Default: true.',
  }),
  inlineDataLimitBytes: numberSetting({
    env: 'SYNC_INLINE_DATA_LIMIT_BYTES',
    opal: null,
    group: DATA,
    default: 8 * 1024 * 1024,
    unit: 'bytes',
    description: 'Most inline data of one update; it is kept in the update log. Larger documents belong behind a URL.',
  }),
  patchesPerPath: numberSetting({
    env: 'SYNC_PATCHES_PER_PATH_LIMIT',
    opal: null,
    group: DATA,
    default: 1000,
    min: 1,
    unit: 'patches',
    description:
      'Patches that may stack at one path, on one topic, before a PUT is due: who comes later has to apply them all.',
  }),
  logKeptMs: secondsSetting({
    env: 'SYNC_LOG_KEPT',
    opal: null,
    group: DATA,
    default: 7 * 24 * 60 * 60,
    min: 24 * 60 * 60,
    description: 'How long updates that newer ones replaced are kept, for clients that were away and GET /data/log.',
  }),
  logKeptRecords: numberSetting({
    env: 'SYNC_LOG_KEPT_RECORDS',
    opal: null,
    group: DATA,
    default: 50_000,
    unit: 'records',
    description: 'Most of those updates that are kept, whatever their age.',
  }),

  ...VERIFY_SETTINGS,
  ...ISSUE_SETTINGS,

  broadcastUri: secretSetting({
    env: 'SYNC_BROADCAST_URI',
    group: GENERAL,
    description:
      'Backbone that keeps the update log of several instances: postgres://, redis://, rediss://, nats:// or tls://; see docs/backbone.md.',
  }),
  broadcastChannelName: textSetting({
    env: 'SYNC_BROADCAST_CHANNEL_NAME',
    opal: null,
    group: GENERAL,
    default: 'policysync',
    form: 'name',
    description: 'Name of the log in the backbone; servers with one name share one log.',
  }),
  broadcastNatsSyncAlways: flagSetting({
    env: 'SYNC_BROADCAST_NATS_SYNC_ALWAYS',
    opal: null,
    group: GENERAL,
    default: false,
    description: 'The NATS servers run with sync_interval "always"; no client can ask them.',
  }),

  stateDir: textSetting({
    env: 'SYNC_STATE_DIR',
    opal: null,
    group: GENERAL,
    form: 'folder',
    description:
      'Folder of the update log and the mirror. Default: policysync/server in XDG_STATE_HOME or ~/.local/state.',
  }),
  logLevel,
  logFormat,
};

/** Typed values of {@link SERVER_SETTINGS}. */
export type ServerSettings = SettingValues<typeof SERVER_SETTINGS>;

/** Settings of a server; unlike the program, the library asks for a state folder. */
export type ServerOptions = Omit<ServerSettings, 'stateDir'> & { stateDir: string };
