import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { redactUrl } from '../lib/observe/log.js';
import type { StartFact } from '../lib/observe/start-lines.js';
import type { EngineChoice } from './engine/choose-engine.js';
import type { ClientSettings } from './options.js';
import { outermostDirectories } from './topics.js';

/** The settings that the facts come from. */
type FactSettings = Pick<
  ClientSettings,
  | 'serverUrl'
  | 'clientToken'
  | 'dataUpdaterEnabled'
  | 'dataTopics'
  | 'policyUpdaterEnabled'
  | 'policyDirs'
  | 'authPublicKey'
  | 'engineUrl'
>;

/** Whose start it is. */
interface Who {
  readonly version: string;
  readonly nodeVersion: string;
  readonly clientId: string;
  readonly hasApi: boolean;
}

/** The facts that a client logs when it starts; its engine and its address follow. */
export function clientStartFacts(settings: FactSettings, who: Who): StartFact[] {
  const { version, nodeVersion, clientId } = who;
  const { dataTopics, policyDirs, clientToken } = settings;
  const serverUrl = redactUrl(settings.serverUrl);
  const authentication = settings.authPublicKey === undefined ? 'off' : 'on';
  const sends = clientToken === undefined ? 'no token is sent' : 'the token of SYNC_CLIENT_TOKEN is sent';
  return [
    {
      about: 'version',
      text: `${version}, Node ${nodeVersion}, client ${clientId}`,
      fields: { version, node: nodeVersion, client_id: clientId },
    },
    {
      about: 'server',
      text: `${serverUrl}, ${sends}`,
      fields: { server: serverUrl, sends_token: Boolean(clientToken) },
    },
    settings.dataUpdaterEnabled
      ? { about: 'data', text: `topics ${dataTopics.join(', ')}`, fields: { topics: dataTopics } }
      : { about: 'data', text: 'off by SYNC_DATA_UPDATER_ENABLED' },
    settings.policyUpdaterEnabled
      ? { about: 'policy', text: directoriesText(policyDirs), fields: { directories: policyDirs } }
      : { about: 'policy', text: 'off by SYNC_POLICY_UPDATER_ENABLED' },
    who.hasApi
      ? {
          about: 'authentication of the client API',
          text:
            authentication === 'on' ? 'on' : 'off, there is no SYNC_AUTH_PUBLIC_KEY: whoever reaches it may call it',
          fields: { authentication },
        }
      : { about: 'client API', text: 'none, there is no port' },
  ];
}

/** Who subscribes to directories gets what is in them: that says what it does not get. */
function directoriesText(dirs: readonly string[]): string {
  const text = `directories ${dirs.join(', ')}`;
  return outermostDirectories(dirs).includes('.')
    ? text
    : `${text}; files above them are left out, among them the data.json of the repository root`;
}

/**
 * The fact about the engine, once it is chosen. `engineUrl`: where it is; undefined for an embedded
 * one that opens no port.
 */
export function engineFact(
  engineUrl: string | undefined,
  { kind, missing }: Pick<EngineChoice, 'kind' | 'missing'>,
): StartFact {
  const engine = engineUrl === undefined ? undefined : redactUrl(engineUrl);
  const why =
    missing === undefined
      ? ''
      : `, since there is no OPA program here (${missing}); for one run "policysync opa get", or set SYNC_ENGINE`;
  const place = engine === undefined ? 'without a port' : `at ${engine}`;
  return {
    about: 'engine',
    text: `${kind} OPA ${place}${why}`,
    fields: { ...(engine && { engine }), engine_kind: kind },
  };
}

/** The settings that tell one client from another on the same machine. */
type ClientIdSettings = Pick<ClientSettings, 'clientId' | 'serverUrl' | 'engineUrl' | 'host' | 'port'>;

/**
 * The name of a client, stable over its restarts and unique in the fleet (design D22):
 * SYNC_CLIENT_ID, else the host's name with 8 hex digits of the SHA-256 of where server, engine and
 * client API are.
 */
export function clientIdOf({ clientId, serverUrl, engineUrl, host, port }: ClientIdSettings): string {
  if (clientId !== undefined) return clientId;
  const place = JSON.stringify([serverUrl, engineUrl, `${host}:${port}`]);
  return `${hostname()}-${createHash('sha256').update(place).digest('hex').slice(0, 8)}`;
}
