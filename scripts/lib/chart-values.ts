import { RE2JS } from 're2js';
import { CLIENT_SETTINGS } from '../../src/client/options.js';
import type { Setting, Settings } from '../../src/lib/settings/setting.js';
import { SERVER_SETTINGS } from '../../src/server/options.js';
import { ANY_SCALAR, valueForms } from './setting-forms.js';

type JsonObject = Record<string, unknown>;

const TEXT = { type: 'string' };
const SOME_TEXT = { type: 'string', minLength: 1 };
const FLAG = { type: 'boolean' };
const COUNT = { type: 'integer', minimum: 0 };
const PORT = { type: 'integer', minimum: 1, maximum: 65_535 };
const OBJECT = { type: 'object' };
const OBJECTS = { type: 'array', items: OBJECT };
const TEXTS_OR_NUMBERS = { type: 'object', additionalProperties: ANY_SCALAR };
const TEXTS_BY_NAME = { type: 'object', additionalProperties: TEXT };
/** The name of an object of Kubernetes, or none. */
const NAME = { type: 'string', maxLength: 253, pattern: '^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$' };
const SOME_NAME = { ...NAME, minLength: 1 };
const DIGEST = { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' };

const PROGRAMS: Readonly<Record<'server' | 'client', Settings>> = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS };

function object(properties: JsonObject, more: JsonObject = {}): JsonObject {
  return { type: 'object', additionalProperties: false, properties, ...more };
}

/** What server and client have both. */
function pods(program: keyof typeof PROGRAMS): JsonObject {
  return {
    settings: object(settingForms(program), { description: 'Settings by name; docs/reference/settings.md has them.' }),
    secretSettings: {
      type: 'array',
      items: object(
        { setting: { enum: secretsOf(program) }, secret: SOME_NAME, key: SOME_TEXT },
        { required: ['setting', 'secret', 'key'] },
      ),
    },
    extraEnv: OBJECTS,
    extraVolumes: OBJECTS,
    extraVolumeMounts: OBJECTS,
    networkPolicy: object({ enabled: FLAG, from: OBJECTS, metricsFrom: OBJECTS }),
    resources: object({ requests: OBJECT, limits: OBJECT, claims: OBJECTS }),
    podAnnotations: TEXTS_BY_NAME,
    podLabels: TEXTS_BY_NAME,
    nodeSelector: TEXTS_BY_NAME,
    tolerations: OBJECTS,
    priorityClassName: NAME,
  };
}

const MONITOR = {
  enabled: FLAG,
  interval: { type: 'string', pattern: '^[0-9]+(ms|s|m|h)$' },
  labels: TEXTS_BY_NAME,
  tokenSecret: object({ name: NAME, key: TEXT }),
};

const BY_HTTP = 'leave it out: the probes and the service of the chart call the client API by HTTP';
const CERTIFICATE = 'name the secret of the certificate in server.tls.existingSecret';
/** Settings that follow from other values of the chart, and what to do instead. */
const OWNED: Readonly<Record<'server' | 'client', Readonly<Record<string, string>>>> = {
  server: {
    SYNC_DRAIN_DELAY: 'set server.drain.delay',
    SYNC_DRAIN_SPREAD: 'set server.drain.spread',
    SYNC_SERVER_BIND_PORT: 'set server.service.port, the port that callers see',
    SYNC_SERVER_TLS_CERT_FILE: CERTIFICATE,
    SYNC_SERVER_TLS_KEY_FILE: CERTIFICATE,
    SYNC_SERVER_TLS_CA_FILE: `${CERTIFICATE}, and set server.tls.clientCertificates=true`,
  },
  client: {
    SYNC_DRAIN_DELAY: 'set client.drain.delay',
    SYNC_ENGINE: 'set client.engine',
    SYNC_CLIENT_API_SERVER_PORT: 'set client.service.apiPort, the port that callers see',
    SYNC_CLIENT_API_TLS_CERT_FILE: BY_HTTP,
    SYNC_CLIENT_API_TLS_KEY_FILE: BY_HTTP,
    SYNC_CLIENT_API_TLS_CA_FILE: BY_HTTP,
  },
};

/** Lists that may be maps in the values. */
const PAIRS: readonly Setting<unknown>[] = [CLIENT_SETTINGS.clientLabels];

/** The forms of a program's settings by name. What the chart refuses with words of its own is left to its templates. */
function settingForms(program: keyof typeof PROGRAMS): JsonObject {
  const forms = Object.values(PROGRAMS[program]).map((setting) => {
    const { env, secret } = setting;
    if (secret || env in OWNED[program]) return [env, true];
    return [env, PAIRS.includes(setting) ? { anyOf: [TEXTS_OR_NUMBERS, valueForms(setting)] } : valueForms(setting)];
  });
  return Object.fromEntries(forms);
}

function secretsOf(program: keyof typeof PROGRAMS): string[] {
  return Object.values(PROGRAMS[program])
    .flatMap(({ env, secret }) => (secret ? [env] : []))
    .sort();
}

/** A schema without the patterns that helm cannot read: its expressions are RE2's. The programs check what is left open. */
function readableByHelm(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(readableByHelm);
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.entries(schema).filter(([name, value]) => name !== 'pattern' || isOfRe2(value));
  return Object.fromEntries(members.map(([name, value]) => [name, readableByHelm(value)]));
}

function isOfRe2(pattern: unknown): boolean {
  if (typeof pattern !== 'string') return true; // a member with this name
  try {
    RE2JS.compile(pattern);
    return true;
  } catch {
    return false; // that is the answer
  }
}

/** What the templates of the chart know of settings. */
export function chartSettings(): string {
  const known = Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[];
  const settings = [SERVER_SETTINGS, CLIENT_SETTINGS].flatMap((all): Setting<unknown>[] => Object.values(all));
  const lists = settings.flatMap(({ env, domain }) => (domain.kind === 'list' ? [[env, domain.separator]] : []));
  const facts = {
    secrets: Object.fromEntries(known.map((program) => [program, secretsOf(program)])),
    owned: OWNED,
    separators: Object.fromEntries(lists),
  };
  return [
    '{{/* Generated by `npm run docs`: the settings that the templates treat apart. */}}',
    `{{- define "policysync.settings" -}}\n${JSON.stringify(facts, null, 1)}\n{{- end -}}\n`,
  ].join('\n');
}

/** `values.schema.json` of the chart; its settings follow the declarations that the programs read them by. */
export function chartValuesSchema(): string {
  const schema = {
    // The draft of the forms of settings, for which helm checks formats, too.
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the policysync chart',
    ...object({
      global: OBJECT,
      nameOverride: TEXT,
      fullnameOverride: TEXT,
      image: object({
        registry: { type: 'string', pattern: '^[^ ]*$' },
        tag: TEXT,
        pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] },
        pullSecrets: { type: 'array', items: object({ name: SOME_NAME }, { required: ['name'] }) },
      }),
      authentication: object({ enabled: FLAG, existingSecret: NAME }),
      backbone: object({ existingSecret: NAME }),
      serviceAccount: object({ create: FLAG, name: NAME, annotations: TEXTS_BY_NAME }),
      server: object({
        enabled: FLAG,
        image: object({ repository: SOME_TEXT, digest: DIGEST }),
        replicas: { type: 'integer', minimum: 1 },
        policyRepo: object({ url: TEXT, branch: SOME_TEXT, pollingInterval: { type: 'number', minimum: 0 } }),
        drain: object({ delay: COUNT, spread: COUNT }),
        tls: object({ existingSecret: NAME, clientCertificates: FLAG }),
        persistence: object({
          size: { type: 'string', pattern: '^[0-9.]+(Ki|Mi|Gi|Ti|k|M|G|T)?$' },
          storageClass: NAME,
          accessModes: {
            type: 'array',
            minItems: 1,
            items: { enum: ['ReadWriteOnce', 'ReadWriteOncePod', 'ReadWriteMany'] },
          },
        }),
        service: object({
          type: { enum: ['ClusterIP', 'NodePort', 'LoadBalancer'] },
          port: PORT,
          annotations: TEXTS_BY_NAME,
        }),
        ingress: object(
          {
            enabled: FLAG,
            className: NAME,
            annotations: TEXTS_BY_NAME,
            hosts: { type: 'array', items: SOME_TEXT },
            tlsSecret: NAME,
          },
          {
            if: { properties: { enabled: { const: true } } },
            // biome-ignore lint/suspicious/noThenProperty: it is a keyword of JSON Schema
            then: { properties: { hosts: { minItems: 1 } } },
          },
        ),
        podDisruptionBudget: object({ enabled: FLAG, maxUnavailable: { type: ['integer', 'string'] } }),
        topologySpread: object({ enabled: FLAG, topologyKeys: { type: 'array', items: TEXT } }),
        affinity: OBJECT,
        serviceMonitor: object({ ...MONITOR, tlsConfig: OBJECT }),
        ...pods('server'),
      }),
      client: object({
        enabled: FLAG,
        engine: { enum: ['inline', 'embedded'] },
        image: object({ repository: TEXT, digest: DIGEST }),
        serverUrl: { type: 'string', pattern: '^(https?://.+)?$' },
        existingSecret: NAME,
        offline: object({ enabled: FLAG }),
        drain: object({ delay: COUNT }),
        service: object({ apiPort: PORT, enginePort: PORT, annotations: TEXTS_BY_NAME }),
        serviceMonitor: object(MONITOR),
        ...pods('client'),
      }),
    }),
  };
  return `${JSON.stringify(readableByHelm(schema), null, 1)}\n`;
}
