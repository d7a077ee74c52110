import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep } from '../../src/lib/run/async.js';
import { field, request } from '../support/http.js';
import { until } from '../support/until.js';
import { chaos } from './chaos.js';
import type { Client } from './client.js';
import { allServe, judgeEnd, lostLogStory } from './ending.js';
import {
  connectionFigures,
  type Figures,
  figuresTable,
  lagOf,
  runFigures,
  updateFigures,
  watchMemory,
} from './figures.js';
import { Journal, type Publication } from './journal.js';
import type { Entry } from './model.js';
import { type RunOptions, readOptions } from './options.js';
import type { Program } from './program.js';
import {
  type AskingDeps,
  publish,
  publishAndAsk,
  publishAndWait,
  publishLastVersions,
  publishLive,
  publishTree,
  readLog,
  SUBSCRIBED,
} from './publishers.js';
import { random } from './random.js';
import { judgeCutOff, judgeWait, pageShows, positionShown } from './said.js';
import { type Sample, sampleEngine } from './sampler.js';
import { judgeServed } from './served.js';
import { Subscribers } from './subscribers.js';
import { type Timeline, timeline } from './timeline.js';
import { account, entriesOf, judgeAll } from './verdict.js';
import { DEAD, startWorld, type World } from './world.js';

const TREE_PUBLISHERS = 3;
/** Those that wait for clients; they wait longer than one fault lasts, so that many waits end with 200 and are checked. */
const WAITERS = 4;
const WAIT_SECONDS = { counted: 2, else: 25 };
/** After this time an announcement of an instance counts for no more, and its clients as away: the lease, and a heartbeat. */
const ANNOUNCED_MS = 9000;
/**
 * The long form publishes more slowly: its model has to stay of a size that can be compared. One that counts faults does not
 * gain by more updates than these.
 */
const PACE_MS = { short: 20, counted: 80, long: 150 };
/** Between two faults of one hand, on average. Nobody can publish without the backbone. */
const PAUSE_MS = { all: 350, backbone: 2500 };
/** Each of many subscribers takes part of the time that an update has. */
const PACE_MS_EACH = 0.2;
/** Longest wait for all subscribers to have everything after it works again. */
const SUBSCRIBERS_MS = 120_000;
/** A machine with other work must not make the run say nothing: it goes on until so much was published, within bounds. */
const LEAST_PUBLICATIONS = 200;
const LEAST_EACH_SECOND = 15;
const LEAST_EACH_FAULT = 12;
const LONGEST = 4;
/** What a run may take beyond its time with faults, at most: one that hangs ends with what is known of it. */
const LIMIT_MS = 10 * 60_000;

// The programs of a run that is broken off end with it: see `program.ts`. Each listens for that.
process.setMaxListeners(50);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
// A run that failed leaves publishers that still wait for their answers: it ends all the same.
process.exit(await main(process.argv.slice(2)));

async function main(args: string[]): Promise<number> {
  const options = readOptions(args, process.env);
  if (typeof options === 'string') {
    process.stderr.write(`faults: ${options}\n`);
    return 2;
  }
  const { seed, seconds, faults, clients, subscribers, instances, backbone } = options;
  const amount = faults === undefined ? `${seconds} s of faults` : `${faults} faults`;
  say(
    `faults: seed ${seed}, ${amount}, ${instances} server instance(s), ${backbone ?? 'embedded log'}, ${clients} client(s), ${subscribers} subscriber(s)`,
  );
  const dir = await mkdtemp(join(tmpdir(), 'policysync-faults-'));
  const limit = setTimeout(
    () => {
      say(`\nfaults: the run with seed ${seed} does not end; timeline and logs: ${dir}`);
      process.exit(1);
    },
    seconds * LONGEST * 1000 + LIMIT_MS,
  );
  const failures: string[] = [];
  try {
    const figures = await run(options, dir, failures);
    say(figuresTable(figures));
    say(JSON.stringify(figures));
  } catch (error) {
    failures.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  clearTimeout(limit);
  if (failures.length === 0) {
    say('faults: everything as promised');
    if (options.keep) say(`logs: ${dir}`);
    else await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    return 0;
  }
  say(`\nfaults: ${failures.length} failure(s) with seed ${seed}; timeline and logs: ${dir}`);
  for (const failure of failures.slice(0, 40)) say(`- ${failure}`);
  return 1;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function run(options: RunOptions, dir: string, failures: string[]): Promise<Figures> {
  const draw = random(options.seed);
  const time = timeline(dir, options.verbose ? say : () => undefined);
  // Few, so that who was away gets the fold; then nothing can be looked up later, and everything is sent until it is known.
  const isShortLog = draw.chance(0.4);
  const keptRecords = isShortLog ? 40 : 1_000_000;
  await using world = await startWorld({ dir, keptRecords, ...options }, draw.fork('world'), time, (what) =>
    failures.push(what),
  );
  const [serverUrl = ''] = world.instances.map(({ url }) => url);
  await allServe(world);
  for (const { apiUrl } of world.clients) {
    await until(async () => field((await request(`${apiUrl}/healthy`)).json, 'engine', 'online') === true, {
      withinMs: 60_000,
      what: 'every engine answers',
    });
  }
  // A client that no server has ever seen is in no picture of the fleet, and no wait can count it.
  for (const { url } of world.instances) {
    const known = async (): Promise<boolean> => {
      const { json } = await request(`${url}/clients`);
      const clients = field(json, 'clients');
      return Array.isArray(clients) && clients.length === world.clients.length && field(json, 'incomplete') === null;
    };
    await until(known, { withinMs: 60_000, what: 'every instance knows every client' });
  }
  const urls = world.instances.map(({ url }) => url);
  await using subscribers = options.subscribers === 0 ? undefined : await Subscribers.start(options.subscribers, urls);
  time.say(`all are up; the log keeps ${keptRecords} replaced records`);

  const journal = new Journal();
  const publishing = new AbortController();
  const breaking = new AbortController();
  const sampling = new AbortController();
  const versions = new Map<string, number>();
  const waits = new Map<number, number>();
  const isCounted = options.faults !== undefined;
  const ownPaceMs = isCounted ? PACE_MS.counted : options.seconds > 120 ? PACE_MS.long : PACE_MS.short;
  const paceMs = Math.max(ownPaceMs, options.subscribers * PACE_MS_EACH);
  const memory = {
    server: watchMemory(programsOf(world.instances), sampling.signal),
    client: watchMemory(programsOf(world.clients), sampling.signal),
  };
  const deps = (name: string): AskingDeps => {
    const own = draw.fork(name);
    return {
      journal,
      sources: world.sources,
      draw: own,
      serverUrl: () => own.pick(world.publishCables).url,
      now: time.now,
      alwaysKeyed: isShortLog,
      paceMs,
      clients: world.clients.length,
      waitSeconds: isCounted ? WAIT_SECONDS.counted : WAIT_SECONDS.else,
      ask: (at, publication) => askPosition(world.clients[at], publication, time, failures),
      judgeWait: async (publication, lives, answer) => {
        waits.set(answer.status, (waits.get(answer.status) ?? 0) + 1);
        await judgeWait({ publication, clients: world.clients, lives, answer, time, failures });
        if (subscribers !== undefined && answer.status === 200)
          failures.push(...(await subscribers.judgeWait(publication, answer.json, time)));
      },
      lives: () => world.clients.map(({ life }) => life()),
    };
  };
  const last = deps('last');
  await publish(journal.add(...deadUpdate(journal, world, time)), last);

  const samples = world.clients.map((client, at) => {
    const own = draw.fork(`samples ${at}`);
    let seen = { life: '', sinceMs: 0 };
    /** A server, once what it shows is of this life: it shows the clients of another one as of its last announcement. */
    const shower = (): string | undefined => {
      if (seen.life !== client.life()) seen = { life: client.life(), sinceMs: time.now() };
      return time.now() - seen.sinceMs < ANNOUNCED_MS ? undefined : own.pick(world.instances).url;
    };
    const shown = {
      positionShown: async () => {
        const url = shower();
        return url === undefined ? undefined : await positionShown(url, client.program.name);
      },
      commitShown: async () => {
        const url = shower();
        const hash = url === undefined ? undefined : await pageShows(url, failures);
        return hash === undefined ? undefined : world.policy.numberOf(hash);
      },
    };
    return sampleEngine({ ...client, ...shown }, time.now, sampling.signal);
  });
  const publishers = Promise.all([
    ...Array.from({ length: TREE_PUBLISHERS }, (_, at) => publishTree(deps(`tree ${at}`), publishing.signal)),
    publishLive(deps('live'), versions, publishing.signal),
    publishAndAsk(deps('ask'), publishing.signal),
    ...Array.from({ length: WAITERS }, (_, at) => publishAndWait(at, deps(`wait ${at}`), publishing.signal)),
  ]);
  const saysCutOff = (at: number): Promise<void> =>
    judgeCutOff({ clients: world.clients, server: world.instances[at]?.url ?? '', time, failures });
  const faults = chaos(
    { world, subscribers, saysCutOff },
    { hands: 2, pauseMs: PAUSE_MS[options.only], faults: options.faults, only: options.only },
    draw.fork('chaos'),
    time,
    breaking.signal,
  );
  faults.catch(() => breaking.abort()); // awaited below, which has the failure
  if (options.faults !== undefined) await faults;
  const never = new AbortController().signal;
  const startedMs = time.now();
  const isEnough = (): boolean => {
    if (options.faults !== undefined) return journal.publications.length >= options.faults * LEAST_EACH_FAULT;
    const passedS = (time.now() - startedMs) / 1000;
    const least = Math.min(options.seconds * LEAST_EACH_SECOND, LEAST_PUBLICATIONS);
    return passedS >= options.seconds * (journal.publications.length < least ? LONGEST : 1);
  };
  while (!isEnough() && !breaking.signal.aborted) await sleep(100, never);
  breaking.abort();
  const counts = await faults;
  publishing.abort();
  await world.heal();
  await allServe(world);
  time.say('everything works again');
  await publishers;
  await publishLastVersions(last, versions);
  await world.policy.commit();

  const log = await readLog(serverUrl);
  failures.push(...account(journal, log, !isShortLog));
  const clientsMs = await judgeEnd(world.clients, journal, log.epoch, world, failures);
  const told = await subscribers?.judgeEnd(journal, log.epoch, SUBSCRIBERS_MS);
  failures.push(...(told?.failures ?? []));
  sampling.abort();
  const seen = await Promise.all(samples);
  // Line by line: all of it together may be more than a string can hold.
  const lines = (function* () {
    for (const item of journal.publications) yield `${JSON.stringify(item)}\n`;
  })();
  await writeFile(join(dir, 'publications.jsonl'), lines);
  await writeFile(join(dir, 'samples.json'), JSON.stringify(seen));
  failures.push(...describe(world.clients, seen, journal, log.epoch, time));
  const lags = world.clients.map((client, at) =>
    lagOf(seen[at] ?? [], entriesOf(journal, log.epoch, client), answerTimes(journal)),
  );
  const figures = {
    ...runFigures(options),
    ...updateFigures(journal),
    faults: Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1))),
    ...connectionFigures(world, dir),
    max_lag: {
      updates: Math.max(...lags.map(({ updates }) => updates)),
      seconds: Math.max(...lags.map(({ seconds }) => seconds)),
    },
    memory_mib: { server: await memory.server, client: await memory.client },
    waits: Object.fromEntries(waits),
    page_yes: seen.flat().filter(({ saidCommit }) => saidCommit !== undefined).length,
    engine_samples: seen.reduce((sum, list) => sum + list.length, 0),
    source_requests: world.sources.requests,
    ...(subscribers === undefined ? {} : { subscribers: await subscribers.counts() }),
  };
  await subscribers?.[Symbol.asyncDispose]();
  const newcomer = await world.newcomer();
  const newcomerMs = await judgeEnd([newcomer], journal, log.epoch, world, failures);
  await newcomer.kill(true);
  time.say('the newcomer is judged');
  await lostLogStory(world, journal, log.epoch, last, time, failures);
  await judgeServed(dir, world, failures);
  return {
    ...figures,
    converged_ms: {
      clients: Math.round(clientsMs),
      newcomer: Math.round(newcomerMs),
      subscribers: Math.round(told?.tookMs ?? 0),
    },
  };
}

function programsOf(parts: readonly { readonly program: Program }[]): Program[] {
  return parts.map(({ program }) => program);
}

/** When each update was acknowledged, by its place. */
function answerTimes({ publications }: Journal): Map<number, number> {
  return new Map(
    publications.flatMap(({ seq, answeredMs }) =>
      seq === undefined || answeredMs === undefined ? [] : [[seq, answeredMs] as const],
    ),
  );
}

/** An update whose source is down for the whole run. */
function deadUpdate(journal: Journal, { sources }: World, time: Timeline): Parameters<Journal['add']> {
  const n = journal.nextNumber();
  const entry: Entry = { n, path: `${DEAD}/update`, topics: [...SUBSCRIBED], what: { method: 'PUT', value: { n } } };
  return [[entry], { isKeyed: true, sentMs: time.now(), urls: new Map([[n, `${sources.url}${DEAD}/update`]]) }];
}

/** Read your writes: what a client says that it has applied is in its engine. */
async function askPosition(
  client: Client | undefined,
  { seq, epoch, entries }: Publication,
  time: Timeline,
  failures: string[],
): Promise<void> {
  const [entry] = entries;
  if (client === undefined || entry === undefined || seq === undefined) return;
  const life = client.life();
  try {
    const said = await request(`${client.apiUrl}/position?at-least=${seq}&timeout=1s&epoch=${epoch}`, {
      signal: AbortSignal.timeout(3000),
    });
    if (said.status !== 200) return;
    const held = await request(`${client.engineUrl}/v1/data${entry.path}`, { signal: AbortSignal.timeout(2000) });
    const n = field(held.json, 'result', 'n');
    // An engine that was killed in between may be empty for a moment.
    if (client.life() !== life || (typeof n === 'number' && n >= entry.n)) return;
    const text = `${client.program.name} said that seq ${seq} is applied; ${entry.path} was ${held.text.trim()}, not entry ${entry.n}`;
    time.say(`FAILURE ${text}`);
    failures.push(`at ${(time.now() / 1000).toFixed(3)}: ${text}`);
  } catch {
    // It is being restarted, frozen, or cut off: it has said nothing.
  }
}

function describe(
  clients: readonly Client[],
  seen: readonly (readonly Sample[])[],
  journal: Journal,
  epoch: string,
  time: Timeline,
): string[] {
  const judged = clients.map((client, at) => ({
    client: client.program.name,
    samples: seen[at] ?? [],
    entries: entriesOf(journal, epoch, client),
    epoch,
  }));
  return judgeAll(judged).map(({ client, atMs, what }, at) => {
    const lines = at < 3 ? time.between(atMs - 4000, atMs + 200).map((line) => `\n      ${line}`) : [];
    return `at ${(atMs / 1000).toFixed(3)}: ${client}: ${what}${lines.join('')}`;
  });
}
