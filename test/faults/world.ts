import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BackboneKind, type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { type Cable, cutCable } from '../support/cut-cable.js';
import { freePort, testOpa } from '../support/opa.js';
import { type Client, makeClient } from './client.js';
import { type Json, segments } from './model.js';
import type { RunOptions } from './options.js';
import { type Policy, startPolicy } from './policy-repo.js';
import { type Program, program } from './program.js';
import { ownTopic } from './publishers.js';
import type { Random } from './random.js';
import { type Sources, startSources } from './sources.js';
import type { Timeline } from './timeline.js';

/** A server instance. */
export interface Instance {
  readonly program: Program;
  readonly url: string;
  readonly stateDir: string;
}

/** All parts of a run. */
export interface World extends AsyncDisposable {
  readonly instances: readonly Instance[];
  readonly clients: readonly Client[];
  readonly backbone: BackboneServer | undefined;
  /** Between each instance and the backbone; none without one. */
  readonly backboneCables: readonly Cable[];
  readonly policy: Policy;
  /** Whether the servers refuse commits that do not compile; otherwise clients meet them. */
  readonly hasGate: boolean;
  readonly sources: Sources;
  /** Between publishers and each instance. */
  readonly publishCables: readonly Cable[];
  /** A client that comes when all is over, and knows nothing. */
  newcomer(): Promise<Client>;
  /** From now on a program may end by itself, as one does whose log was replaced; it is started again. */
  allowEnds(): void;
  /** Everything that is cut, frozen, failing or down is so no more. */
  heal(): Promise<void>;
}

/** How large. */
export interface WorldOptions {
  readonly seed: number;
  readonly dir: string;
  readonly instances: number;
  readonly clients: number;
  readonly backbone: BackboneKind | undefined;
  readonly engine: RunOptions['engine'];
  /** Rows of the log that were replaced and are kept: few, so that clients get the fold, or many. */
  readonly keptRecords: number;
}

/** Topics of each client, whether it keeps a backup. */
const CLIENTS: readonly { readonly topics: readonly string[]; readonly isOffline: boolean }[] = [
  { topics: ['alpha', 'beta', 'gamma', ownTopic(0)], isOffline: false },
  { topics: ['alpha', ownTopic(1)], isOffline: true },
  { topics: ['beta', 'gamma', ownTopic(2)], isOffline: false },
];
/** With engines of both kinds so many clients have it embedded, one of them with a backup. */
const MIXED_EMBEDDED = 2;
const NEWCOMER = { topics: ['alpha', 'beta', 'gamma'], isOffline: false };
/** A supervisor starts what has ended again after this time. */
const RESTART_MS = 500;
/** Where a source that never answers is to bring something. */
export const DEAD = '/dead';

/** Starts everything. `onEnded` hears of a program that ended by itself, which then is started again. */
export async function startWorld(
  options: WorldOptions,
  draw: Random,
  time: Timeline,
  onEnded: (what: string) => void,
): Promise<World> {
  const { dir } = options;
  const parts: AsyncDisposable[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    parts.push(part);
    return part;
  };
  const dispose = async (): Promise<void> => {
    for (const part of parts.splice(0).reverse()) await part[Symbol.asyncDispose]();
  };
  try {
    return await start();
  } catch (error) {
    await dispose();
    throw error;
  }

  async function start(): Promise<World> {
    const opa = options.engine === 'embedded' ? undefined : await testOpa();
    const opaOf = (at: number): string | undefined =>
      options.engine === 'both' && at < MIXED_EMBEDDED ? undefined : opa;
    const sources = use(await startSources(draw.fork('sources')));
    const policy = await startPolicy(dir);
    const hasGate = options.seed % 2 === 1;
    const backbone =
      options.backbone === undefined ? undefined : use(await (await backboneOffer(options.backbone)).start());
    let mayEnd = false;
    const ended = (what: string, restart: () => void) => (how: string) => {
      time.say(`${what} ENDED BY ITSELF: ${how}`);
      if (!mayEnd) onEnded(`${what} ended by itself: ${how}`);
      setTimeout(restart, RESTART_MS);
    };

    const backboneCables: Cable[] = [];
    const instances: Instance[] = [];
    for (let at = 0; at < options.instances; at++) {
      const port = await freePort();
      const stateDir = join(dir, `state-${at}`);
      const backboneCable =
        backbone === undefined ? undefined : use(await cutCable(`http://127.0.0.1:${backbone.port}`));
      if (backboneCable !== undefined) backboneCables.push(backboneCable);
      const env = {
        SYNC_SERVER_HOST: '127.0.0.1',
        SYNC_SERVER_BIND_PORT: String(port),
        SYNC_STATE_DIR: stateDir,
        SYNC_POLICY_REPO_URL: policy.url,
        SYNC_POLICY_REPO_POLLING_INTERVAL: '0.3',
        SYNC_POLICY_GATE: hasGate ? 'on' : 'off',
        SYNC_HEARTBEAT_INTERVAL: '1',
        SYNC_DATA_CONFIG_SOURCES: JSON.stringify(baseConfig(sources)),
        SYNC_LOG_KEPT_RECORDS: String(options.keptRecords),
        SYNC_LOG_FORMAT: 'json',
        ...(backbone === undefined || backboneCable === undefined
          ? {}
          : { SYNC_BROADCAST_URI: throughCable(backbone, backboneCable) }),
      };
      const own = program(
        { name: `server-${at}`, kind: 'server', dir, env },
        ended(`server ${at}`, () => own.start()),
      );
      use({ [Symbol.asyncDispose]: () => own.kill() });
      instances.push({ program: own, url: `http://127.0.0.1:${port}`, stateDir });
    }
    const publishCables: Cable[] = [];
    for (const { url } of instances) publishCables.push(use(await cutCable(url)));

    const client = async (at: number, what: (typeof CLIENTS)[number]): Promise<Client> => {
      const serverUrl = instances[at % instances.length]?.url ?? '';
      const made: Client = use(
        await makeClient(
          { at, dir, opa: opaOf(at), serverUrl, ...what },
          ended(`client ${at}`, () => made.program.start()),
        ),
      );
      made.program.start();
      return made;
    };
    for (const { program: own } of instances) own.start();
    const clients: Client[] = [];
    for (const [at, what] of CLIENTS.slice(0, options.clients).entries()) clients.push(await client(at, what));

    return {
      instances,
      clients,
      backbone,
      backboneCables,
      policy,
      hasGate,
      sources,
      publishCables,
      newcomer: () => client(CLIENTS.length, NEWCOMER),
      allowEnds: () => {
        mayEnd = true;
      },
      heal: async () => {
        sources.heal();
        await policy.back();
        backbone?.thaw();
        for (const cable of [...publishCables, ...backboneCables]) cable.mend();
        for (const { program: own } of instances) {
          own.thaw();
          own.start();
        }
        for (const { cable, program: own, thawEngine } of clients) {
          cable.mend();
          own.thaw();
          thawEngine();
          own.start();
        }
      },
      [Symbol.asyncDispose]: dispose,
    };
  }
}

/** What the base entries with a source that works come to. */
export const BASE_DOCUMENTS: readonly { path: string; value: Json }[] = [
  { path: '/base/one', value: { base: 1 } },
  { path: '/base/two', value: { base: 2, list: [1, 2, 3] } },
];

/** Beside them two whose source is down for the whole run. */
function baseConfig(sources: Sources): object {
  const topics = ['alpha', 'beta', 'gamma'];
  const entries = BASE_DOCUMENTS.map(({ path, value }) => ({
    url: sources.serve(path, JSON.stringify(value)),
    topics,
    dst_path: path,
    periodic_update_interval: 1,
  }));
  const dead = { url: `${sources.url}${DEAD}/base`, topics, dst_path: `${DEAD}/base` };
  // Nothing listens at port 1.
  const refused = { url: 'http://127.0.0.1:1/refused', topics, dst_path: `${DEAD}/refused` };
  return { config: { entries: [...entries, dead, refused] } };
}

/** The address of a backbone as an instance gets it: by its cable. */
function throughCable({ uri, port }: BackboneServer, cable: Cable): string {
  return uri.replace(`:${port}`, `:${new URL(cable.url).port}`);
}

/** Forgets the whole state of an instance, which must not run. */
export async function emptyDisk({ stateDir }: Instance): Promise<void> {
  await rm(stateDir, { recursive: true, force: true });
}

/** True at or below the paths of sources that are down. */
export function isDead(path: string): boolean {
  return `/${segments(path)[0] ?? ''}` === DEAD;
}
