import { sleep } from '../../src/lib/run/async.js';
import { field, request } from '../support/http.js';
import { until } from '../support/until.js';
import type { Client } from './client.js';
import type { Journal } from './journal.js';
import type { Json } from './model.js';
import { type PublishDeps, publishTree, readLog } from './publishers.js';
import { atRest } from './rest.js';
import type { Timeline } from './timeline.js';
import { compare, desired, entriesOf, published, withRules } from './verdict.js';
import { emptyDisk, type World } from './world.js';

/** Longest wait for a client to be at rest after everything works again: a machine with other work takes long to start one. */
const REST_MS = 120_000;
/** Longest wait for a server: it waits for its backbone itself. */
const SERVER_MS = 120_000;
/** Updates that are published to the log that came after the lost one. */
const ANEW = { publications: 30, paceMs: 20 };
const LATER_MS = 3000;

const pause = (ms: number): Promise<void> => sleep(ms, new AbortController().signal);

/** Returns when every instance is up and says that nothing is wrong with it: one that has no backbone yet is not there. */
export async function allServe({ instances }: Pick<World, 'instances'>): Promise<void> {
  for (const { url, program } of instances) {
    await until(async () => field((await request(`${url}/healthcheck`)).json, 'status') === 'ok', {
      withinMs: SERVER_MS,
      what: `${program.name} says that it can do its job`,
    });
  }
}

/** Waits until clients are at rest and holds their engines against the model; answers the longest wait. */
export async function judgeEnd(
  clients: readonly Client[],
  journal: Journal,
  epoch: string,
  { policy }: World,
  failures: string[],
): Promise<number> {
  const { number, hash } = policy.last;
  let longest = 0;
  for (const client of clients) {
    const entries = entriesOf(journal, epoch, client);
    const takenMs = await atRest(client, { epoch, entries, hash }, REST_MS).catch((error: unknown) => {
      failures.push(error instanceof Error ? error.message : String(error));
      return REST_MS;
    });
    longest = Math.max(longest, takenMs);
    await judgeDocuments(client, withRules(desired(entries, number), number), failures);
  }
  return longest;
}

async function judgeDocuments(client: Client, expected: Json, failures: string[]): Promise<void> {
  const wrong = await compare(client, expected);
  if (wrong.length === 0) return;
  await pause(LATER_MS);
  const later = await compare(client, expected);
  const healed = later.length === 0 ? ' (3 s later all was right)' : '';
  failures.push(`${client.program.name} said that it is at rest, and differs${healed}:\n    ${wrong.join('\n    ')}`);
}

/**
 * The log is lost: the server comes back with an empty disk, or the backbone with no data. What is there then is another
 * log, and nobody may lose anything by it (design D11). What is published from then on wins.
 */
export async function lostLogStory(
  world: World,
  journal: Journal,
  epochBefore: string,
  deps: PublishDeps,
  time: Timeline,
  failures: string[],
): Promise<void> {
  const [first] = world.instances;
  if (first === undefined) return;
  const last = world.policy.last.number;
  const before = world.clients.map((client) => desired(entriesOf(journal, epochBefore, client), last));
  const epoch = await loseLog(world, epochBefore, first.url, time);
  const { number, hash } = world.policy.last;
  const rest = async (client: Client, entries: Parameters<typeof atRest>[1]['entries']): Promise<void> => {
    await atRest(client, { epoch, entries, hash }, REST_MS).catch((error: unknown) =>
      failures.push(`after the log was lost: ${error instanceof Error ? error.message : String(error)}`),
    );
  };
  for (const [at, client] of world.clients.entries()) {
    await rest(client, []);
    await judgeDocuments(client, withRules(before[at] ?? {}, number), failures);
  }
  time.say('nothing was lost with the log');
  const publishing = new AbortController();
  const enough = journal.publications.length + ANEW.publications;
  const publishers = [0, 1].map((at) =>
    publishTree(
      { ...deps, alwaysKeyed: true, paceMs: ANEW.paceMs, draw: deps.draw.fork(`anew ${at}`) },
      publishing.signal,
    ),
  );
  await until(() => journal.publications.length >= enough, { withinMs: SERVER_MS, what: 'updates are published anew' });
  publishing.abort();
  await Promise.all(publishers);
  for (const [at, client] of world.clients.entries()) {
    const entries = entriesOf(journal, epoch, client);
    await rest(client, entries);
    // What is published wins over all that was there, whatever its place was in the log that is gone.
    await judgeDocuments(client, withRules(published(entries, before[at] ?? {}), number), failures);
  }
  time.say('what was published since then has won');
}

/** Answers the epoch of the log that comes after. */
async function loseLog(world: World, epochBefore: string, url: string, time: Timeline): Promise<string> {
  const { backbone, instances } = world;
  if (backbone === undefined) {
    time.say('the server comes back with an empty disk');
    for (const instance of instances) {
      await instance.program.kill();
      await emptyDisk(instance);
      instance.program.start();
    }
  } else {
    time.say('the backbone comes back with no data');
    // An instance whose log was replaced ends, and its supervisor starts it again (docs/how-to/several-instances.md).
    world.allowEnds();
    await backbone.empty();
  }
  return await until(
    async () => {
      await allServe(world);
      const epochs = await Promise.all(instances.map(async (instance) => (await readLog(instance.url)).epoch));
      const [epoch] = epochs;
      return epochs.every((other) => other === epoch && other !== epochBefore) ? epoch : undefined;
    },
    { withinMs: SERVER_MS, what: `another log at ${url}` },
  );
}
