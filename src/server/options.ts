import * as z from 'zod';
import { BUNDLE_ALGORITHMS } from '../auth/algorithms.js';
import { ISSUE_SETTINGS, VERIFY_SETTINGS } from '../auth/settings.js';
import { listenerTlsSettings, SHARED_SETTINGS } from '../http/settings.js';
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
  orPath,
  pathSetting,
  rateSetting,
  secondsSetting,
  secretSetting,
  textSetting,
  tokenSetting,
  urlSetting,
} from '../lib/settings/setting-kinds.js';
import { serverDataSources } from '../wire/data.js';
import { parseKeepingSources } from '../wire/inline-data.js';
import { GATE_MODES } from './policy/gate/gate-rules.js';
import { readWebhookParams, webhookParams } from './policy/webhook/params.js';

const MIB = 1024 * 1024;

const { allowedHosts, metricsAccess, drainDelayMs, engineV0Compat, logLevel, logFormat } = SHARED_SETTINGS;
const tls = listenerTlsSettings('SYNC_SERVER_TLS', { name: 'server', protocols: 'https and wss' });

/** Every setting of the sync server. Defaults that equal OPAL's are from opal-protocol P8.2. */
export const SERVER_SETTINGS = {
  ...inGroup('HTTP and sockets', {
    host: hostSetting('SYNC_SERVER_HOST', 'Address to listen on; 0.0.0.0 listens on all interfaces.', {
      default: '127.0.0.1',
    }),
    port: numberSetting('SYNC_SERVER_BIND_PORT', 'Port to listen on; 0 picks a free one.', {
      default: 7002,
      max: 65_535,
      unit: 'port',
    }),
    tlsCertFile: tls.cert,
    tlsKeyFile: tls.key,
    tlsCaFile: tls.ca,
    bodyLimitBytes: bytesSetting('SYNC_BODY_LIMIT_BYTES', 'Maximum size of a request body.', {
      default: 16 * MIB,
      min: 1024,
    }),
    subscriberBufferBytes: bytesSetting(
      'SYNC_SUBSCRIBER_BUFFER_BYTES',
      'Unread bytes after which a subscriber is disconnected; it catches up when it reconnects.',
      { default: 16 * MIB, min: 65_536 },
    ),
    readerTimeoutMs: secondsSetting(
      'SYNC_READER_TIMEOUT',
      'Time without progress after which a caller that does not read its response is disconnected.',
      { opal: null, default: 30, min: 0.1, max: 3600 },
    ),
    frameLimitBytes: bytesSetting('SYNC_FRAME_LIMIT_BYTES', 'Maximum size of a message from a socket.', {
      default: 16 * MIB,
      min: 1024,
    }),

    rateLimit: rateSetting(
      'SYNC_RATE_LIMIT',
      'Requests per address, including new sockets; the rest get 429. Health checks do not count.',
      { opal: null, default: '10000 per second' },
    ),
    clientLoadLimit: rateSetting(
      'SYNC_CLIENT_LOAD_LIMIT_NOTATION',
      'Rate at which all clients together may start, enforced by GET /loadlimit.',
      { default: 'none' },
    ),
    maxConnections: numberSetting('SYNC_MAX_CONNECTIONS', 'Maximum number of open connections, including sockets.', {
      opal: null,
      default: 20_000,
      min: 1,
      unit: 'connections',
    }),
    connectionsPerAddress: numberSetting(
      'SYNC_CONNECTIONS_PER_ADDRESS',
      'Open connections per address that have not been admitted yet (by a token, if authentication is on). Beyond, one on which nothing happens gives way.',
      { opal: null, default: 4000, min: 1, unit: 'connections' },
    ),
    unauthenticatedBytesPerAddress: bytesSetting(
      'SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS',
      'Bytes of unauthenticated request bodies (webhooks, for example) in flight per address; the rest get 429.',
      { default: 16 * MIB, min: 5 * MIB },
    ),
    responseBytes: bytesSetting(
      'SYNC_RESPONSE_BYTES',
      'Bytes of responses under way, each text once; a token has half of it, an address three quarters. The rest get 429, or 503 if it is used up.',
      { default: 128 * MIB, min: MIB },
    ),
    requestBytes: bytesSetting(
      'SYNC_REQUEST_BYTES',
      'Bytes of request bodies under way; a token has half of it, an address three quarters. Slow ones give way, then the rest get 429 or 503.',
      { default: 128 * MIB, min: MIB },
    ),
    scansAtOnce: numberSetting(
      'SYNC_SCANS_AT_ONCE',
      'Requests that read the log, the fleet or the repository at a time, half of them of one token. The others wait for their turn.',
      { opal: null, default: 8, min: 1, unit: 'requests' },
    ),
    maxSubscriptions: numberSetting(
      'SYNC_MAX_SUBSCRIPTIONS',
      'Subscriptions to topics, without the first 32 of each socket; a token has half of it, an address three quarters. The rest are refused.',
      { opal: null, default: 500_000, min: 1, unit: 'subscriptions' },
    ),
    trustedProxies: listSetting(
      'SYNC_TRUSTED_PROXIES',
      'Addresses and networks (10.0.0.0/8) of load balancers whose X-Forwarded-For is trusted for the limits per address.',
      { opal: null },
    ),
    allowedHosts,
    allowedOrigins: listSetting(
      'SYNC_ALLOWED_ORIGINS',
      'Origins whose web pages may call this API (CORS); * allows all. Empty: none.',
    ),
    statisticsEnabled: flagSetting('SYNC_STATISTICS_ENABLED', 'Enable GET /statistics and GET /stats.'),
    heartbeatIntervalMs: secondsSetting(
      'SYNC_HEARTBEAT_INTERVAL',
      'Interval at which clients receive the heads of log and policy, so that they detect missed notifications.',
      { opal: null, default: 15, min: 0.1, max: 3600 },
    ),
    clientAwayTtlMs: secondsSetting(
      'SYNC_CLIENT_AWAY_TTL',
      'Time for which a disconnected client stays listed, as away.',
      {
        formerly: 'SYNC_CLIENT_MEMORY',
        opal: null,
        default: 3600,
      },
    ),
    metricsAccess,
    drainDelayMs,
    drainSpreadMs: secondsSetting(
      'SYNC_DRAIN_SPREAD',
      'Maximum time over which a server that stops sends its subscribers to the others; 5 ms for each if that is less.',
      { opal: null, default: 10, max: 3600 },
    ),
    maxChannelsPerClient: numberSetting(
      'SYNC_MAX_CHANNELS_PER_CLIENT',
      'Connections per client id that GET /statistics lists.',
      { default: 15, min: 1, unit: 'connections' },
    ),
  }),
  ...inGroup('Policy source', {
    policySourceType: choiceSetting(
      'SYNC_POLICY_SOURCE_TYPE',
      'Source of policy: GIT, a branch of a repository; API, bundle.tar.gz on an HTTP or S3 server.',
      { choices: ['GIT', 'API'], default: 'GIT', ignoreCase: true },
    ),
    policyRepoUrl: pathSetting(
      'SYNC_POLICY_REPO_URL',
      'Git repository to follow: a file, http(s) or ssh URL, or user@host:path. Unset: the server serves no policy.',
      { form: 'git URL' },
    ),
    policyRepoBranch: textSetting(
      'SYNC_POLICY_REPO_MAIN_BRANCH',
      'Branch to follow. Default: the one that the repository names as its default (HEAD).',
    ),
    policyRepoClonePath: pathSetting(
      'SYNC_POLICY_REPO_CLONE_PATH',
      'Folder of the local mirror. Default: policy-repo or policy-bundle in SYNC_STATE_DIR.',
      { form: 'folder' },
    ),
    policyRepoSshKey: orPath(
      secretSetting(
        'SYNC_POLICY_REPO_SSH_KEY',
        'Private key for ssh: its text or a file path. Underscores, \\n or blanks may stand for newlines.',
      ),
    ),
    policyRepoEnv: listSetting(
      'SYNC_POLICY_REPO_ENV',
      'Names of additional environment variables that git and ssh get; see "Child processes" in docs/why/security-model.md.',
      { opal: null },
    ),
    policyRepoCloneTimeoutMs: secondsSetting(
      'SYNC_POLICY_REPO_CLONE_TIMEOUT',
      'Timeout of a fetch. 0: 10 minutes for the first fetch and for bundles, 2 minutes for later fetches.',
      { default: 0 },
    ),
    policyRepoSilenceTimeoutMs: secondsSetting(
      'SYNC_POLICY_REPO_SILENCE_TIMEOUT',
      'Longest silence of the git remote within a fetch; up to four times that for a remote that needs it.',
      { opal: null, default: 10, min: 0.05 },
    ),
    policyRepoPollingIntervalMs: secondsSetting(
      'SYNC_POLICY_REPO_POLLING_INTERVAL',
      'Interval at which the source is polled. 0: no polling.',
      { default: 0 },
    ),
    policyRepoWebhookSecret: secretSetting(
      'SYNC_POLICY_REPO_WEBHOOK_SECRET',
      'Secret that the git service shares with POST /webhook. Unset: every webhook is accepted.',
    ),
    policyRepoWebhookParams: jsonSetting(
      'SYNC_POLICY_REPO_WEBHOOK_PARAMS',
      'Webhook format of the git service. Default: github.',
      {
        schema: webhookParams,
        parseText: readWebhookParams,
        form: 'github|gitlab|azure|bitbucket|bitbucket-data-center, or JSON {"secret_header_name":...}',
      },
    ),
    policyRepoWebhookEnforceBranch: flagSetting(
      'SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH',
      'Ignore pushes to branches other than the followed one.',
    ),

    policyBundleUrl: urlSetting(
      'SYNC_POLICY_BUNDLE_URL',
      'Base URL of the bundle server, for S3 with the bucket; the server follows bundle.tar.gz below it.',
    ),
    policyBundleServerType: choiceSetting(
      'SYNC_POLICY_BUNDLE_SERVER_TYPE',
      'HTTP sends the token, if set, as a bearer token. AWS-S3 signs requests (Signature Version 4).',
      { alsoNamed: ['POLICY_BUNDLE_SERVER_TYPE'], choices: ['HTTP', 'AWS-S3'], default: 'HTTP', ignoreCase: true },
    ),
    policyBundleServerTokenId: tokenSetting('SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID', 'Access key ID for AWS-S3.', {
      alsoNamed: ['POLICY_BUNDLE_SERVER_TOKEN_ID'],
    }),
    policyBundleServerToken: tokenSetting(
      'SYNC_POLICY_BUNDLE_SERVER_TOKEN',
      'Bearer token for HTTP; secret access key for AWS-S3.',
      { alsoNamed: ['POLICY_BUNDLE_SERVER_TOKEN'] },
    ),
    policyBundleServerAwsRegion: textSetting('SYNC_POLICY_BUNDLE_SERVER_AWS_REGION', 'Region for AWS-S3.', {
      alsoNamed: ['POLICY_BUNDLE_SERVER_AWS_REGION'],
      default: 'us-east-1',
    }),
    policyBundleLimitBytes: bytesSetting('SYNC_POLICY_BUNDLE_LIMIT_BYTES', 'Maximum size of bundle.tar.gz.', {
      default: 64 * MIB,
      min: 1,
    }),
    policyBundleLimitUnpackedBytes: bytesSetting(
      'SYNC_POLICY_BUNDLE_LIMIT_UNPACKED_BYTES',
      'Maximum size of the tar archive inside bundle.tar.gz.',
      { default: 256 * MIB, min: 1 },
    ),
    policyBundleLimitEntries: numberSetting(
      'SYNC_POLICY_BUNDLE_LIMIT_ENTRIES',
      'Maximum number of files and folders in bundle.tar.gz.',
      { opal: null, default: 50_000, min: 1, unit: 'entries' },
    ),
    policyBundleVerificationKey: secretSetting(
      'SYNC_POLICY_BUNDLE_VERIFICATION_KEY',
      'Key that .signatures.json of a bundle must verify with: PEM of a public key or certificate, or the secret for HS*. Unset: signatures are ignored.',
      { opal: null },
    ),
    policyBundleVerificationAlgorithm: choiceSetting(
      'SYNC_POLICY_BUNDLE_VERIFICATION_ALGORITHM',
      'Signature algorithm of bundles; no other one is accepted.',
      { opal: null, choices: BUNDLE_ALGORITHMS, default: 'RS256', ignoreCase: true },
    ),
    policyBundleVerificationScope: textSetting(
      'SYNC_POLICY_BUNDLE_VERIFICATION_SCOPE',
      'Scope that the signature of a bundle must have. Empty: none.',
      { opal: null, default: '', form: 'text' },
    ),
  }),
  ...inGroup('Policy gate', {
    policyGate: choiceSetting(
      'SYNC_POLICY_GATE',
      'A commit that does not compile: on: it is not served; warn: it is, with a warning; off: nothing is compiled. See docs/how-to/bad-commits.md.',
      {
        opal: null,
        choices: GATE_MODES,
        ignoreCase: true,
        // As YAML 1.1 reads the words.
        also: { 1: 'on', TRUE: 'on', YES: 'on', 0: 'off', FALSE: 'off', NO: 'off' },
        default: 'on',
      },
    ),
    policyGateDirs: listSetting(
      'SYNC_POLICY_GATE_DIRS',
      'Directories that a client subscribes to, joined by colons; one item for each such set. Each set is compiled by itself.',
      { opal: null, default: ['.'] },
    ),
    engineV0Compat,
  }),
  ...inGroup('Bundles', {
    policyExtensions: listSetting('SYNC_POLICY_REPO_POLICY_EXTENSIONS', 'File extensions of policy modules.', {
      default: ['.rego'],
    }),
    manifestPath: textSetting(
      'SYNC_POLICY_REPO_MANIFEST_PATH',
      'The root .manifest: a file, or a folder that contains one. Empty: the repository root.',
      { default: '', form: 'path' },
    ),
    bundleIgnore: listSetting(
      'SYNC_BUNDLE_IGNORE',
      'Paths to exclude from bundles. `dir/**` matches a folder and everything below it; elsewhere ** means the same as *.',
    ),
    bundleCacheBytes: bytesSetting('SYNC_BUNDLE_CACHE_BYTES', 'Memory for encoded bundles.', { default: 64 * MIB }),
  }),
  ...inGroup('Data', {
    dataSources: jsonSetting(
      'SYNC_DATA_CONFIG_SOURCES',
      'Base data sources that every client loads first, or the URL of an API that returns them per client.',
      {
        schema: serverDataSources,
        parseText: parseKeepingSources,
        form: 'JSON {"config":{"entries":[...]}} or {"external_source_url":"https://..."}',
      },
    ),
    allowInsecureExternalSource: flagSetting(
      'SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE',
      'Accept an external_source_url with http, which exposes the tokens of clients.',
      { opal: null },
    ),
    updatesRetained: flagSetting(
      'SYNC_DATA_UPDATES_RETAINED',
      'Include published updates in GET /data/config, so that clients that were away catch up.',
      { opal: null, default: true },
    ),

    updatesRetainDefault: jsonSetting(
      'SYNC_DATA_UPDATES_RETAIN_DEFAULT',
      'Whether updates without `retain` are kept for later subscribers. Default: true.',
      { opal: null, schema: z.union([z.boolean(), z.number().min(0)]), form: 'true|false|seconds' },
    ),
    inlineDataLimitBytes: bytesSetting(
      'SYNC_INLINE_DATA_LIMIT_BYTES',
      'Maximum inline data of an update, which the log stores. Publish larger documents by URL.',
      { default: 8 * MIB },
    ),
    patchesPerPath: numberSetting(
      'SYNC_PATCHES_PER_PATH_LIMIT',
      'Maximum number of patches per path and topic before a PUT is required: a new client has to apply them all.',
      { opal: null, default: 1000, min: 1, unit: 'patches' },
    ),
    idempotencyKeys: numberSetting(
      'SYNC_IDEMPOTENCY_KEYS',
      'Number of updates after which an Idempotency-Key is forgotten, if that is before its 24 h. NATS remembers each for an hour instead.',
      { opal: null, default: 100_000, min: 1000, unit: 'updates' },
    ),
    logRetentionMs: secondsSetting(
      'SYNC_LOG_RETENTION',
      'Time for which superseded updates and deletions are kept, for clients that were away and for GET /data/log.',
      { formerly: 'SYNC_LOG_KEPT', opal: null, default: 7 * 24 * 60 * 60, min: 24 * 60 * 60 },
    ),
    logRetentionRecords: numberSetting(
      'SYNC_LOG_RETENTION_RECORDS',
      'Maximum number of superseded updates that are kept, and of deletions that OPAL clients are told of.',
      {
        formerly: 'SYNC_LOG_KEPT_RECORDS',
        opal: null,
        default: 50_000,
        unit: 'records',
      },
    ),
  }),
  ...VERIFY_SETTINGS,
  ...ISSUE_SETTINGS,

  ...inGroup('General', {
    broadcastUri: secretSetting(
      'SYNC_BROADCAST_URI',
      'Backbone for the update log that several instances share: postgres://, redis://, rediss://, nats:// or tls://; see docs/how-to/several-instances.md.',
    ),
    broadcastChannelName: textSetting(
      'SYNC_BROADCAST_CHANNEL_NAME',
      'Name of the log in the backbone; servers with the same name share a log.',
      { opal: null, default: 'policysync', form: 'name' },
    ),
    broadcastNatsSyncAlways: flagSetting(
      'SYNC_BROADCAST_NATS_SYNC_ALWAYS',
      'Declares that the NATS servers run with sync_interval "always", which a client cannot query.',
      { opal: null },
    ),

    stateDir: pathSetting(
      'SYNC_STATE_DIR',
      'Folder for the update log and the mirror. Default: policysync/server in XDG_STATE_HOME or ~/.local/state.',
      { opal: null, form: 'folder' },
    ),
    environment: lineSetting(
      'SYNC_ENVIRONMENT',
      'Name of what this server is part of, such as production. The live page and `policysync status --watch` show it, also before sign-in.',
      { opal: null, maxCharacters: 40 },
    ),
    logLevel,
    logFormat,
  }),
};

/** Typed values of {@link SERVER_SETTINGS}. */
export type ServerSettings = SettingValues<typeof SERVER_SETTINGS>;

/** Settings of a server. The library requires a state folder; the program has a default. */
export type ServerOptions = Omit<ServerSettings, 'stateDir'> & { stateDir: string };
