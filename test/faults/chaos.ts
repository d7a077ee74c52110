import { sleep } from '../../src/lib/run/async.js';
import type { Cable } from '../support/cut-cable.js';
import { field, request } from '../support/http.js';
import type { Client } from './client.js';
import { fill } from './full-backbone.js';
import type { RunOptions } from './options.js';
import type { Random } from './random.js';
import { SOURCE_FAULTS } from './sources.js';
import type { Subscribers } from './subscribers.js';
import type { Timeline } from './timeline.js';
import { emptyDisk, type Instance, type World } from './world.js';

/** A fault with its end: when it is over, what it broke works again. */
interface Fault {
  /** What it takes hold of: no two faults of one thing at once. */
  readonly of: string;
  /** Kinds that have not come yet are drawn first, as a rule, so that a short run has most of them. */
  readonly kind: string;
  readonly weight: number;
  run(): Promise<void>;
}

const NEW_WEIGHT = 20;
/** An instance that has not heard of the backbone for 7 s knows that it is cut off, and tells its clients. */
const CUT_OFF_MS = 15_000;

/** Judges what clients of an instance say that has been cut off from the backbone for long. */
type SaysCutOff = (instance: number) => Promise<void>;

/** What faults happen to. */
interface Broken {
  readonly world: World;
  readonly subscribers: Subscribers | undefined;
  readonly saysCutOff: SaysCutOff;
}

/** How often each fault came. */
export type Counts = Map<string, number>;

/**
 * Breaks things until the signal aborts or all faults were had, and mends each after a while. Several at once: so many hands. What is drawn
 * comes again with the seed; what it meets does not, since processes are never twice the same.
 */
export async function chaos(
  broken: Broken,
  options: { hands: number; pauseMs: number; faults: number | undefined; only: RunOptions['only'] },
  draw: Random,
  time: Timeline,
  signal: AbortSignal,
): Promise<Counts> {
  const counts: Counts = new Map();
  const busy = new Set<string>();
  const seen = new Set<string>();
  let left = options.faults ?? Number.POSITIVE_INFINITY;
  const hand = async (own: Random): Promise<void> => {
    while (!signal.aborted && left > 0) {
      const possible = faults(broken, own, time, counts).filter(
        ({ of, kind }) => !busy.has(of) && (options.only === 'all' || kind.startsWith('backbone')),
      );
      const fault = weighted(possible, seen, own);
      if (fault !== undefined) {
        left--;
        seen.add(fault.kind);
        busy.add(fault.of);
        try {
          await fault.run();
        } finally {
          busy.delete(fault.of);
        }
      }
      await sleep(own.next() * 2 * options.pauseMs, signal).catch(() => undefined); // aborted: the loop ends
    }
  };
  await Promise.all(Array.from({ length: options.hands }, (_, at) => hand(draw.fork(`hand ${at}`))));
  return counts;
}

function weighted(possible: readonly Fault[], seen: ReadonlySet<string>, draw: Random): Fault | undefined {
  const weightOf = ({ kind, weight }: Fault): number => (seen.has(kind) ? weight : weight * NEW_WEIGHT);
  let left = draw.next() * possible.reduce((sum, fault) => sum + weightOf(fault), 0);
  for (const fault of possible) {
    left -= weightOf(fault);
    if (left < 0) return fault;
  }
  return undefined;
}

const pause = (ms: number): Promise<void> => sleep(ms, new AbortController().signal);

function faults({ world, subscribers, saysCutOff }: Broken, draw: Random, time: Timeline, counts: Counts): Fault[] {
  const did = (name: string, more = ''): void => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
    time.say(`${name}${more}`);
  };
  const { sources, policy, backbone } = world;
  const list: Fault[] = [];
  const add = (of: string, kind: string, weight: number, run: () => Promise<void>): void =>
    void list.push({ of, kind, weight, run });
  for (const [at, instance] of world.instances.entries()) addInstance(at, instance);
  for (const [at, client] of world.clients.entries()) addClient(at, client);
  addCables();
  if (subscribers !== undefined) addSubscribers(subscribers);
  add('sources', 'sources', 4, async () => {
    const [fault, share, ms] = [draw.pick(SOURCE_FAULTS), 0.2 + 0.8 * draw.next(), draw.int(300, 3000)];
    did(`sources: ${fault}`, ` (${Math.round(share * 100)} %) for ${ms} ms`);
    sources.fail(fault, share);
    await pause(ms);
    sources.heal();
  });
  add('policy', 'commit', 4, async () => {
    did('commit', ` ${await policy.commit()}`);
  });
  add('policy', 'broken commit', 2, async () => {
    did('broken commit');
    await policy.commitBroken();
    await pause(draw.int(0, 1500));
    did('commit', ` ${await policy.commit()}`);
  });
  add('policy', 'away', 1, async () => {
    did('policy repository away');
    await policy.away();
    await pause(draw.int(300, 2000));
    await policy.back();
  });
  if (backbone !== undefined) {
    add('backbone', 'backbone killed', 6, async () => {
      did('backbone killed');
      await backbone.kill();
      await pause(draw.int(0, 3000));
      await backbone.start();
    });
    add('backbone', 'backbone frozen', 3, async () => {
      did('backbone frozen');
      await backbone.freeze();
      await pause(draw.int(300, 4000));
      backbone.thaw();
    });
    add('backbone', 'backbone full', 2, async () => {
      const ms = draw.int(300, 4000);
      did('backbone full', ` for ${ms} ms`);
      const empty = await fill(backbone);
      await pause(ms);
      await empty();
    });
    for (const [at, cable] of world.backboneCables.entries()) addBackboneCable(at, cable);
  }
  return list;

  /** One instance loses the backbone, or has it late, while the others have it. */
  function addBackboneCable(at: number, cable: Cable): void {
    const name = `backbone cable of ${at}`;
    const cutOffMs = (): number => (draw.chance(0.3) ? CUT_OFF_MS : draw.int(300, 6000));
    add(name, 'backbone cut off', 2, async () => {
      const ms = cutOffMs();
      did('backbone cut off from one server', ` (${at}) for ${ms} ms`);
      cable.cut();
      await pause(ms);
      if (ms === CUT_OFF_MS) await saysCutOff(at);
      cable.mend();
    });
    add(name, 'backbone silent', 2, async () => {
      const ms = cutOffMs();
      did('backbone silent for one server', ` (${at}) for ${ms} ms`);
      cable.freeze();
      await pause(ms);
      if (ms === CUT_OFF_MS) await saysCutOff(at);
      if (draw.chance(0.5)) cable.cut();
      cable.mend();
    });
    add(name, 'backbone slow', 2, async () => {
      const [late, ms] = [draw.int(20, 600), draw.int(1000, 5000)];
      did('backbone slow for one server', ` (${at}), ${late} ms for ${ms} ms`);
      cable.slow(late);
      await pause(ms);
      cable.mend();
    });
  }

  function addInstance(at: number, instance: Instance): void {
    const { program, url } = instance;
    const name = `server ${at}`;
    // The log is in the backbone. Where it is on the disk itself, this is the last thing that happens: see `ending.ts`.
    if (backbone !== undefined) {
      add(name, 'empty disk', 2, async () => {
        did('server back with an empty disk', ` (${name})`);
        await program.kill();
        await emptyDisk(instance);
        program.start();
        await answers(url);
      });
    }
    add(name, 'server killed', 4, async () => {
      did(`server killed`, ` (${name})`);
      await program.kill();
      await pause(draw.int(0, 1500));
      program.start();
      await answers(url);
    });
    add(name, 'server stopped', 1, async () => {
      did('server stopped', ` (${name})`);
      await program.stop();
      await pause(draw.int(0, 500));
      program.start();
      await answers(url);
    });
    add(name, 'server frozen', 2, async () => {
      const ms = draw.int(300, 4000);
      did('server frozen', ` (${name}) for ${ms} ms`);
      program.freeze();
      await pause(ms);
      program.thaw();
    });
  }

  function addClient(at: number, client: Client): void {
    const name = `client ${at}`;
    add(name, 'client killed', 1.5, async () => {
      const withEngine = draw.chance(0.6);
      did(withEngine ? 'client killed with its engine' : 'client killed', ` (${name})`);
      await client.kill(withEngine);
      await pause(draw.int(0, 1000));
      client.program.start();
      await engineAnswers(client);
    });
    add(name, 'client frozen', 1, async () => {
      const ms = draw.int(300, 3000);
      did('client frozen', ` (${name}) for ${ms} ms`);
      client.program.freeze();
      await pause(ms);
      client.program.thaw();
    });
    add(name, 'engine killed', 2, async () => {
      if (client.killEngine()) did('engine killed', ` (${name})`);
      await pause(draw.int(0, 500));
    });
    add(name, 'engine frozen', 1, async () => {
      const ms = draw.int(300, 3000);
      if (client.freezeEngine()) did('engine frozen', ` (${name}) for ${ms} ms`);
      await pause(ms);
      client.thawEngine();
    });
  }

  function addSubscribers(own: Subscribers): void {
    for (let at = 0; at < own.processes; at++) {
      const name = `subscribers ${at}`;
      add(name, 'subscribers cut', 2, async () => {
        did('subscribers cut', ` (${name})`);
        await own.cut(at);
      });
      add(name, 'subscribers frozen', 1, async () => {
        const ms = draw.int(300, 3000);
        did('subscribers frozen', ` (${name}) for ${ms} ms`);
        own.freeze(at);
        await pause(ms);
        own.thaw(at);
      });
    }
  }

  function addCables(): void {
    const cables = [
      ...world.clients.map(({ cable }, at) => ({ cable, name: `cable of client ${at}`, isClient: true })),
      ...world.publishCables.map((cable, at) => ({ cable, name: `cable of publishers to ${at}`, isClient: false })),
    ];
    for (const { cable, name, isClient } of cables) {
      add(name, 'cut', 2, async () => {
        did('cut', ` (${name})`);
        cable.cut();
        await pause(draw.int(0, 1500));
        if (isClient) cable.connectTo(draw.pick(world.instances).url);
        cable.mend();
      });
      add(name, 'cut midway', 2, async () => {
        did('cut in the midst of a frame', ` (${name})`);
        cable.cutMidway();
        await pause(draw.int(0, 500));
        cable.mend();
      });
      add(name, 'cable frozen', 1, async () => {
        const ms = draw.int(300, 4000);
        did('cable frozen', ` (${name}) for ${ms} ms`);
        cable.freeze();
        await pause(ms);
        if (draw.chance(0.5)) cable.cut();
        cable.mend();
      });
    }
  }
}

/** Until an instance answers, at most 5 s: a fault ends when what it broke is back, or the next one comes. */
async function answers(url: string): Promise<void> {
  await look(async () => (await request(`${url}/`, { signal: AbortSignal.timeout(500) })).status === 200);
}

async function engineAnswers({ apiUrl }: Client): Promise<void> {
  await look(
    async () =>
      field((await request(`${apiUrl}/healthy`, { signal: AbortSignal.timeout(500) })).json, 'engine', 'online') ===
      true,
  );
}

async function look(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 5000;
  while (performance.now() < deadline) {
    if (await condition().catch(() => false)) return; // no answer: not yet
    await pause(50);
  }
}
