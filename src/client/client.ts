import { clientAuthenticator } from '../auth/security.js';
import type { DeclaredRoute } from '../http/declared-route.js';
import { Drain } from '../http/drain.js';
import { openListenerTls } from '../http/listener-tls.js';
import { createHttpProgram, type ListenAddress, type Listening } from '../http/program.js';
import { pemFile } from '../lib/net/tls.js';
import { type Logger, redactUrl, silentLogger } from '../lib/observe/log.js';
import { logStart } from '../lib/observe/start-lines.js';
import type { Parts } from '../lib/run/lifecycle.js';
import { packageVersion } from '../lib/run/version.js';
import { A_FUNCTION, A_LOGGER, AN_OBJECT, checkParts, OBJECTS, type PartRulesOf } from '../lib/settings/given-parts.js';
import { settingValues } from '../lib/settings/options.js';
import type { GivenValues } from '../lib/settings/setting.js';
import { authzenOffer } from './authzen/settings.js';
import type { ClientDeps } from './client-deps.js';
import {
  makeAsked,
  makeFollower,
  makeUpdaters,
  openCommon,
  openEngine,
  openFetcher,
  openServerSide,
} from './client-parts.js';
import type { Decider } from './decisions/decision.js';
import { attachDecisions, DECISION_PARTS, Decisions } from './decisions/decisions.js';
import { chooseEngine } from './engine/choose-engine.js';
import { REST_PARTS, withRest } from './engine/engine-kind.js';
import { createOffline } from './offline/create-offline.js';
import { Revalidation } from './offline/revalidation.js';
import { CLIENT_SETTINGS, type ClientSettings } from './options.js';
import { makePosition } from './position/make-position.js';
import { clientIdOf, clientStartFacts, engineFact } from './start-facts.js';

export type { ClientDeps } from './client-deps.js';

/** A sync client. It decides, too: by whichever engine it keeps current. */
export interface Client<A = ListenAddress | undefined> extends Decider {
  /**
   * Starts to follow the server; the engine starts in the background, then policy and data arrive.
   * Returns the address of its API; undefined where it has none, since no port is given.
   */
  start(): Promise<A>;
  /**
   * Prepares a stop, as SIGTERM does in the program: `GET /ready` is 503, and for SYNC_DRAIN_DELAY
   * everything else stays. Resolves when it is time to call {@link stop}, which cuts it short.
   * Idempotent; does nothing before the start.
   */
  drain(): Promise<void>;
  /**
   * Ends all parts, the inline engine included. A second call is the same stop; a start after it
   * rejects with `already_stopped`.
   */
  stop(): Promise<void>;
  /**
   * Resolves when the client has stopped; rejects when a part fails in a way that trying again does
   * not mend. From then on each decision rejects with that reason.
   */
  ended(): Promise<void>;
  /** Every route of the client API and who may call it; empty before the start. */
  readonly routes: readonly DeclaredRoute[];
}

const CLIENT_PARTS: PartRulesOf<ClientDeps> = {
  ...{ log: A_LOGGER, env: AN_OBJECT, fetchProviders: OBJECTS, lookUp: A_FUNCTION },
  decisions: { members: DECISION_PARTS },
  rest: { members: REST_PARTS },
};

/**
 * Settings by the names of {@link CLIENT_SETTINGS}, times in milliseconds. What is missing has its
 * default.
 */
export type GivenClientSettings = GivenValues<typeof CLIENT_SETTINGS>;

/**
 * The composition root of the client: makes the parts in order; they end in reverse order. `given`:
 * the settings that differ from their defaults, or all of them, from `loadSettings`. Throws
 * `config_invalid` that names each one, or each part, that is not valid. Without a logger the
 * client is silent. Without a `port` it has no API.
 */
export function createClient(
  given: GivenClientSettings & { readonly port: number },
  parts?: Partial<ClientDeps>,
): Client<ListenAddress>;
export function createClient(given?: GivenClientSettings, parts?: Partial<ClientDeps>): Client;
export function createClient(given: GivenClientSettings = {}, parts: Partial<ClientDeps> = {}): Client {
  const known = settingValues(CLIENT_SETTINGS, given, Object.keys(CLIENT_PARTS));
  checkParts(parts, CLIENT_PARTS);
  const settings = withRest(known, parts.rest);
  const deps = { ...parts, log: parts.log ?? silentLogger(), env: parts.env ?? process.env };
  const decisions = new Decisions(deps.decisions ?? {}, { log: deps.log.child({ component: 'decisions' }) });
  const program = createHttpProgram(
    'client',
    (made) => compose(settings, { ...deps, decider: decisions, hasApi: given.port !== undefined }, made),
    deps.log,
  );
  program.ended().catch((error: unknown) => decisions.fail(error)); // callers of ended() get it, too
  return {
    start: async () => {
      try {
        return await program.start();
      } catch (error) {
        decisions.fail(error);
        throw error;
      }
    },
    drain: program.drain,
    stop: () => {
      decisions.stop();
      return program.stop();
    },
    ended: program.ended,
    get routes() {
      return program.routes;
    },
    decide: decisions.decide.bind(decisions),
    decideMany: decisions.decideMany.bind(decisions),
    onChange: decisions.onChange.bind(decisions),
  };
}

async function compose(
  settings: ClientSettings,
  deps: ClientDeps & { decider: Decisions; hasApi: boolean },
  parts: Parts,
): Promise<Listening<ListenAddress | undefined>> {
  const { log, env, hasApi } = deps;
  const startedMs = Date.now();
  const clientId = clientIdOf(settings);
  logStart(
    log,
    clientStartFacts(settings, { version: packageVersion(), nodeVersion: process.versions.node, clientId, hasApi }),
  );
  const authzen = authzenOffer(settings);
  const choosing = chooseEngine(settings, { log: log.child({ component: 'engine' }), env, signal: parts.signal });
  choosing.catch(() => undefined); // awaited below
  // Loaded while the OPA program is asked for its version.
  const loading = Promise.all([import('./http.js'), import('../http/app.js')]);
  loading.catch(() => undefined); // awaited below
  const authenticator = await clientAuthenticator(settings);
  const common = await openCommon(settings, deps, parts);
  const { gate, status, metrics, backoff, logOf } = common;
  const tls = await openListenerTls(apiTls(settings));
  const choice = await choosing;
  const engineUrl = choice.kind === 'embedded' && deps.rest === undefined ? undefined : settings.engineUrl;
  logStart(log, [engineFact(engineUrl, choice)]);
  const { engine, applier, held, keeper, healthWriter, drift } = await openEngine(common, { choice, engineUrl }, parts);
  const { spool, fetcher } = await openFetcher(common, deps.fetchProviders ?? [], parts);
  const { api, reporter } = openServerSide(common, parts);
  const follower = makeFollower(common, { api, keeper, engine, log });
  const { policy, data } = makeUpdaters(common, {
    ...{ applier, follower, fetcher, api, reporter },
    outlives: engine.engine.seals !== undefined,
  });
  const { waits, stateReporter } = makePosition({ clientId }, { ...common, engine, policy, data });
  attachDecisions(deps.decider, { ...common, engine, held, keeper, data });
  const asked = makeAsked(common, { policy, data, engine, drift, startedMs, log });
  const revalidation = new Revalidation(settings, { follower, policy, data });
  const { backup, offline } = createOffline(
    { settings, env, backoff },
    {
      ...{ engine: engine.engine, held, keeper, policy, data, status, spool },
      follower: {
        start: () => follower.start({ policy, data, reporter: stateReporter, asked }),
        stop: () => follower.stop(),
      },
      refetch: () => revalidation.request(),
      log: logOf('offline'),
    },
  );
  // Runs once nothing changes any more, and while the spool is still there.
  if (settings.offlineModeEnabled) parts.add(backup, () => backup.saveOrTell().then(() => backup.settled()));

  const [{ clientHttp }, { closeHttpApp, listenHttp }] = await loading;
  const drain = new Drain();
  const app = clientHttp(settings, {
    ...{ authenticator, tls, metrics, status, engine, healthWriter, drift, follower, policy, data, waits },
    ...{ reporter, offline, authzen, decisions: deps.decider, drain, log: logOf('http') },
  });
  parts.add(app, (one) => closeHttpApp(one));
  const address = hasApi ? await listenHttp(app, { host: settings.host, port: settings.port }) : undefined;
  if (address !== undefined) gate.protect('the API of this client', { host: settings.host, port: address.port });

  const onBack = (): void => {
    data.engineBack();
    policy.engineBack();
  };
  parts.run((signal) => keeper.run({ onBack, onRefilled: () => offline.engineRestarted() }, signal));
  for (const part of [healthWriter, drift, follower, revalidation, offline, reporter]) {
    if (part !== undefined) parts.run((signal) => part.run(signal));
  }
  const peers = { server: redactUrl(settings.serverUrl), ...(engineUrl && { engine: redactUrl(engineUrl) }) };
  log.info(
    { ...address, ...peers, policy_mode: engine.engine.policyMode },
    `sync client ${address === undefined ? 'has started' : 'is listening'}`,
  );
  const prepareStop = async (signal: AbortSignal): Promise<void> => {
    if (address !== undefined) await drained(signal, { drain, app, settings, log });
  };
  return { app, address, drain: prepareStop };
}

async function drained(
  signal: AbortSignal,
  { drain, app, settings, log }: { drain: Drain; app: Listening['app']; settings: ClientSettings; log: Logger },
): Promise<void> {
  log.info({ delay_ms: settings.drainDelayMs }, 'draining: GET /ready is 503');
  await drain.begin(app.server, settings.drainDelayMs, signal);
}

/** Certificate, key and authorities of the client API. */
function apiTls(settings: ClientSettings): Parameters<typeof openListenerTls>[0] {
  return {
    cert: pemFile('SYNC_CLIENT_API_TLS_CERT_FILE', settings.apiTlsCertFile),
    key: pemFile('SYNC_CLIENT_API_TLS_KEY_FILE', settings.apiTlsKeyFile),
    ca: pemFile('SYNC_CLIENT_API_TLS_CA_FILE', settings.apiTlsCaFile),
  };
}
