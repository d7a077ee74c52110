import * as z from 'zod';
import { ISSUE_SETTINGS, VERIFY_SETTINGS } from '../auth/settings.js';
import { SHARED_SETTINGS } from '../http/settings.js';
import {
  choiceSetting,
  flagSetting,
  inGroup,
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

const { allowedHosts, metricsAccess, logLevel, logFormat } = SHARED_SETTINGS;

/** Every setting of the sync server. Defaults that equal OPAL's are from opal-protocol P8.2. */
export const SERVER_SETTINGS = {
  ...inGroup('HTTP and sockets', {
    host: textSetting('SYNC_SERVER_HOST', 'Address to listen on. 0.0.0.0 for all interfaces.', {
      default: '127.0.0.1',
    }),
    port: numberSetting('SYNC_SERVER_BIND_PORT', 'Port to listen on; 0 takes a free one.', {
      default: 7002,
      max: 65_535,
      unit: 'port',
    }),
    tlsCertFile: textSetting(
      'SYNC_SERVER_TLS_CERT_FILE',
      'PEM certificate of the server, with its chain: it then answers https and wss only.',
      { opal: null, form: 'file' },
    ),
    tlsKeyFile: textSetting('SYNC_SERVER_TLS_KEY_FILE', 'PEM key of that certificate, without a passphrase.', {
      opal: null,
      form: 'file',
    }),
    tlsCaFile: textSetting(
      'SYNC_SERVER_TLS_CA_FILE',
      'PEM authority: callers must then show a certificate that it has signed.',
      { opal: null, form: 'file' },
    ),
    bodyLimitBytes: numberSetting('SYNC_BODY_LIMIT_BYTES', 'Largest request body that is accepted.', {
      opal: null,
      default: 16 * 1024 * 1024,
      min: 1024,
      unit: 'bytes',
    }),
    subscriberBufferBytes: numberSetting(
      'SYNC_SUBSCRIBER_BUFFER_BYTES',
      'A subscriber that leaves more than this unread is disconnected; it catches up when it returns.',
      { opal: null, default: 16 * 1024 * 1024, min: 65_536, unit: 'bytes' },
    ),
    readerTimeoutMs: secondsSetting(
      'SYNC_READER_TIMEOUT',
      'A caller that takes nothing of its answer for this long, or a little longer, is cut off.',
      { opal: null, default: 30, min: 0.1, max: 3600 },
    ),
    frameLimitBytes: numberSetting('SYNC_FRAME_LIMIT_BYTES', 'Largest message that is accepted from a socket.', {
      opal: null,
      default: 16 * 1024 * 1024,
      min: 1024,
      unit: 'bytes',
    }),

    rateLimit: rateSetting(
      'SYNC_RATE_LIMIT',
      'Requests of one address, sockets that open included; more are answered 429. Health checks are free.',
      { opal: null, default: '10000 per second' },
    ),
    clientLoadLimit: rateSetting(
      'SYNC_CLIENT_LOAD_LIMIT_NOTATION',
      'How many clients may start, over all: what GET /loadlimit lets through.',
      { default: 'none' },
    ),
    maxConnections: numberSetting(
      'SYNC_MAX_CONNECTIONS',
      'Connections at one time, sockets included; more are not accepted.',
      { opal: null, default: 20_000, min: 1, unit: 'connections' },
    ),
    connectionsPerAddress: numberSetting(
      'SYNC_CONNECTIONS_PER_ADDRESS',
      'Connections of one address on which nobody was let in yet (by a token, where tokens are asked for); more are cut.',
      { opal: null, default: 4000, min: 1, unit: 'connections' },
    ),
    unauthenticatedBytesPerAddress: numberSetting(
      'SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS',
      'Bytes of webhooks and other bodies without a token that one address may have under way; more are answered 429.',
      { opal: null, default: 16 * 1024 * 1024, min: 5 * 1024 * 1024, unit: 'bytes' },
    ),
    trustedProxies: listSetting(
      'SYNC_TRUSTED_PROXIES',
      'Addresses and networks of load balancers (10.0.0.0/8) whose X-Forwarded-For says where a caller is, for all limits per address.',
      { opal: null },
    ),
    allowedHosts,
    allowedOrigins: listSetting(
      'SYNC_ALLOWED_ORIGINS',
      'Origins whose web pages may call this API (CORS); * for all. Empty: none.',
    ),
    statisticsEnabled: flagSetting('SYNC_STATISTICS_ENABLED', 'Answer GET /statistics and GET /stats.'),
    heartbeatIntervalMs: secondsSetting(
      'SYNC_HEARTBEAT_INTERVAL',
      'How often clients are told where the log and the policy stand, so that they notice what they missed.',
      { opal: null, default: 15, min: 0.1, max: 3600 },
    ),
    clientMemoryMs: secondsSetting('SYNC_CLIENT_MEMORY', 'How long a client that left is still listed, as away.', {
      opal: null,
      default: 3600,
    }),
    metricsAccess,
    maxChannelsPerClient: numberSetting(
      'SYNC_MAX_CHANNELS_PER_CLIENT',
      'Connections of one client id that GET /statistics lists.',
      { default: 15, min: 1, unit: 'connections' },
    ),
  }),
  ...inGroup('Policy source', {
    policySourceType: choiceSetting(
      'SYNC_POLICY_SOURCE_TYPE',
      'Where policy comes from: GIT, a branch of a repository; API, bundle.tar.gz on an HTTP or S3 server.',
      { choices: ['GIT', 'API'], default: 'GIT', ignoreCase: true },
    ),
    policyRepoUrl: textSetting(
      'SYNC_POLICY_REPO_URL',
      'Git repository to follow: file, http(s), ssh, or the scp form user@host:path. Unset: the server serves no policy.',
      { form: 'git URL' },
    ),
    policyRepoBranch: textSetting('SYNC_POLICY_REPO_MAIN_BRANCH', 'Branch to follow.', { default: 'master' }),
    policyRepoClonePath: textSetting(
      'SYNC_POLICY_REPO_CLONE_PATH',
      'Folder of the local repository. Default: policy-repo or policy-bundle inside SYNC_STATE_DIR.',
      { form: 'folder' },
    ),
    policyRepoSshKey: secretSetting(
      'SYNC_POLICY_REPO_SSH_KEY',
      'Private key for ssh: the text (an underscore stands for a newline where there is none) or a file path.',
    ),
    policyRepoEnv: listSetting(
      'SYNC_POLICY_REPO_ENV',
      'Names of more environment variables for git and ssh, for a credential helper; see "Child processes" in docs/security.md.',
      { opal: null },
    ),
    policyRepoCloneTimeoutMs: secondsSetting(
      'SYNC_POLICY_REPO_CLONE_TIMEOUT',
      'Longest time for one fetch from the remote. 0: 10 minutes for the first one and for bundles, 2 minutes for later ones.',
      { default: 0 },
    ),
    policyRepoPollingIntervalMs: secondsSetting(
      'SYNC_POLICY_REPO_POLLING_INTERVAL',
      'Time between looks for new commits or bundles. 0: no polling.',
      { default: 0 },
    ),
    policyRepoWebhookSecret: secretSetting(
      'SYNC_POLICY_REPO_WEBHOOK_SECRET',
      'Secret that the git service and POST /webhook share. Unset: everyone is believed.',
    ),
    policyRepoWebhookParams: jsonSetting(
      'SYNC_POLICY_REPO_WEBHOOK_PARAMS',
      'How the git service sends its webhooks. Default: github.',
      {
        schema: webhookParams,
        parseText: readWebhookParams,
        form: 'github|gitlab|azure|bitbucket, or JSON {"secret_header_name":...}',
      },
    ),
    policyRepoWebhookEnforceBranch: flagSetting(
      'SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH',
      'Ignore webhooks for pushes to other branches than SYNC_POLICY_REPO_MAIN_BRANCH.',
    ),

    policyBundleUrl: urlSetting(
      'SYNC_POLICY_BUNDLE_URL',
      'Base address of the bundle server; bundle.tar.gz below it is followed. For S3: with the bucket.',
    ),
    policyBundleServerType: choiceSetting(
      'SYNC_POLICY_BUNDLE_SERVER_TYPE',
      'HTTP: the token, if set, is sent as bearer token. AWS-S3: requests are signed (Signature Version 4).',
      { alsoNamed: ['POLICY_BUNDLE_SERVER_TYPE'], choices: ['HTTP', 'AWS-S3'], default: 'HTTP', ignoreCase: true },
    ),
    policyBundleServerTokenId: secretSetting('SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID', 'Access key id for AWS-S3.', {
      alsoNamed: ['POLICY_BUNDLE_SERVER_TOKEN_ID'],
    }),
    policyBundleServerToken: secretSetting(
      'SYNC_POLICY_BUNDLE_SERVER_TOKEN',
      'Bearer token for HTTP; secret access key for AWS-S3.',
      { alsoNamed: ['POLICY_BUNDLE_SERVER_TOKEN'] },
    ),
    policyBundleServerAwsRegion: textSetting('SYNC_POLICY_BUNDLE_SERVER_AWS_REGION', 'Region for AWS-S3.', {
      alsoNamed: ['POLICY_BUNDLE_SERVER_AWS_REGION'],
      default: 'us-east-1',
    }),
    policyBundleLimitBytes: numberSetting('SYNC_POLICY_BUNDLE_LIMIT_BYTES', 'Largest bundle.tar.gz that is accepted.', {
      opal: null,
      default: 64 * 1024 * 1024,
      min: 1,
      unit: 'bytes',
    }),
    policyBundleLimitUnpackedBytes: numberSetting(
      'SYNC_POLICY_BUNDLE_LIMIT_UNPACKED_BYTES',
      'Largest tar archive that a bundle.tar.gz may unpack to.',
      { opal: null, default: 256 * 1024 * 1024, min: 1, unit: 'bytes' },
    ),
    policyBundleLimitEntries: numberSetting(
      'SYNC_POLICY_BUNDLE_LIMIT_ENTRIES',
      'Most files and folders that a bundle.tar.gz may have.',
      { opal: null, default: 50_000, min: 1, unit: 'entries' },
    ),
  }),
  ...inGroup('Bundles', {
    policyExtensions: listSetting('SYNC_POLICY_REPO_POLICY_EXTENSIONS', 'Endings of policy modules.', {
      default: ['.rego'],
    }),
    manifestPath: textSetting(
      'SYNC_POLICY_REPO_MANIFEST_PATH',
      'The root .manifest: a file, or a folder that has one. Empty: the repository root.',
      { default: '', form: 'path' },
    ),
    bundleIgnore: listSetting(
      'SYNC_BUNDLE_IGNORE',
      'Paths left out of bundles. `dir/**` is a folder and all below; otherwise ** means the same as *.',
    ),
    bundleCacheBytes: numberSetting('SYNC_BUNDLE_CACHE_BYTES', 'Memory for bundles that are kept ready encoded.', {
      opal: null,
      default: 64 * 1024 * 1024,
      unit: 'bytes',
    }),
  }),
  ...inGroup('Data', {
    dataSources: jsonSetting(
      'SYNC_DATA_CONFIG_SOURCES',
      'Base data sources that every client loads first, or the URL of an API that answers them per client.',
      {
        schema: serverDataSources,
        parseText: parseKeepingSources,
        form: 'JSON {"config":{"entries":[...]}} or {"external_source_url":"https://..."}',
      },
    ),
    allowInsecureExternalSource: flagSetting(
      'SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE',
      'Accept an external_source_url with http, where the tokens of clients travel in clear.',
      { opal: null },
    ),
    updatesRetained: flagSetting(
      'SYNC_DATA_UPDATES_RETAINED',
      'Answer published updates in GET /data/config, so that clients that were away catch up.',
      { opal: null, default: true },
    ),

    updatesRetainDefault: jsonSetting(
      'SYNC_DATA_UPDATES_RETAIN_DEFAULT',
      'Whether updates that do not say so themselves are kept for those who come later. Default: true.',
      { opal: null, schema: z.union([z.boolean(), z.number().min(0)]), form: 'true|false|seconds' },
    ),
    inlineDataLimitBytes: numberSetting(
      'SYNC_INLINE_DATA_LIMIT_BYTES',
      'Most inline data of one update; it is kept in the update log. Larger documents belong behind a URL.',
      { opal: null, default: 8 * 1024 * 1024, unit: 'bytes' },
    ),
    patchesPerPath: numberSetting(
      'SYNC_PATCHES_PER_PATH_LIMIT',
      'Patches that may stack at one path, on one topic, before a PUT is due: who comes later has to apply them all.',
      { opal: null, default: 1000, min: 1, unit: 'patches' },
    ),
    logKeptMs: secondsSetting(
      'SYNC_LOG_KEPT',
      'How long updates that newer ones replaced are kept, for clients that were away and GET /data/log.',
      { opal: null, default: 7 * 24 * 60 * 60, min: 24 * 60 * 60 },
    ),
    logKeptRecords: numberSetting('SYNC_LOG_KEPT_RECORDS', 'Most of those updates that are kept, whatever their age.', {
      opal: null,
      default: 50_000,
      unit: 'records',
    }),
  }),
  ...VERIFY_SETTINGS,
  ...ISSUE_SETTINGS,

  ...inGroup('General', {
    broadcastUri: secretSetting(
      'SYNC_BROADCAST_URI',
      'Backbone that keeps the update log of several instances: postgres://, redis://, rediss://, nats:// or tls://; see docs/backbone.md.',
    ),
    broadcastChannelName: textSetting(
      'SYNC_BROADCAST_CHANNEL_NAME',
      'Name of the log in the backbone; servers with one name share one log.',
      { opal: null, default: 'policysync', form: 'name' },
    ),
    broadcastNatsSyncAlways: flagSetting(
      'SYNC_BROADCAST_NATS_SYNC_ALWAYS',
      'The NATS servers run with sync_interval "always"; no client can ask them.',
      { opal: null },
    ),

    stateDir: textSetting(
      'SYNC_STATE_DIR',
      'Folder of the update log and the mirror. Default: policysync/server in XDG_STATE_HOME or ~/.local/state.',
      { opal: null, form: 'folder' },
    ),
    logLevel,
    logFormat,
  }),
};

/** Typed values of {@link SERVER_SETTINGS}. */
export type ServerSettings = SettingValues<typeof SERVER_SETTINGS>;

/** Settings of a server; unlike the program, the library asks for a state folder. */
export type ServerOptions = Omit<ServerSettings, 'stateDir'> & { stateDir: string };
