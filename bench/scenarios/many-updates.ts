import { request } from 'undici';
import { type Cost, type Measured, watch } from '../lib/figure.js';
import { type Publisher, publisher, urlEntry } from '../lib/publish.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { type Stage, startBareStage, startStage } from '../lib/stage.js';
import { pause } from '../lib/wait.js';

const PUBLISHERS = 8;
/** After a first one that does not count: all programs, the bare one too, do half as much again once V8 has compiled them. */
const ROUNDS = 3;
const DOCUMENT_BYTES = 1_000;
const RATE = 'updates in OPA';
const ACCEPTED = 'updates accepted';
const ANSWER = 'answer to a publisher';
/** Without OPA; the kernel's steps of 10 ms do not matter here. Less in need of a quiet machine than a rate. */
const CPU = 'CPU of server and client per update';
const DELIVERED = 'updates that came to OPA';
/** How long all that was accepted may take to come to the engine, after the last answer. */
const ARRIVE_MS = 30_000;
const LOOK_EVERY_MS = 50;

async function measured(bench: Bench, stage: Stage): Promise<readonly Measured[]> {
  const publishers = Array.from({ length: PUBLISHERS }, () => bench.keep(publisher(stage.server.url)));
  const limitMs = bench.pick(15_000, 10_000);
  const round = (name: string, count: number): Promise<readonly Measured[]> =>
    published(stage, publishers, { under: `/bulk/${name}`, count, limitMs });
  await round('before', bench.pick(5_000, 100));
  const found: Measured[] = [];
  for (let at = 0; at < bench.pick(ROUNDS, 1); at++) {
    found.push(...(await round(`round${at}`, bench.pick(5_000, 1_000))));
  }
  return found;
}

/** Publishes so many updates, and waits until all are in the engine. */
async function published(
  stage: Stage,
  publishers: readonly Publisher[],
  { under, count, limitMs }: { under: string; count: number; limitMs: number },
): Promise<readonly Measured[]> {
  const answerMs: number[] = [];
  let next = 0;
  const used = watch(stage.programs);
  const startMs = performance.now();
  await Promise.all(
    publishers.map(async (own) => {
      while (next < count && performance.now() - startMs < limitMs) {
        const n = next++;
        const sentMs = performance.now();
        await own.publish([urlEntry(stage.source.document(n, DOCUMENT_BYTES), `${under}/d${n}`)]);
        answerMs.push(performance.now() - sentMs);
      }
    }),
  );
  const acceptedMs = performance.now() - startMs;
  const { inEngine, atMs } = await arrived(stage, under, answerMs.length);
  const cost = used();
  return [
    { metric: RATE, unit: '1/s', samples: [(inEngine * 1000) / (atMs - startMs)], cost },
    { metric: CPU, unit: 'us', samples: [(totalCpuMs(cost) * 1000) / inEngine] },
    { metric: ACCEPTED, unit: '1/s', samples: [(answerMs.length * 1000) / acceptedMs] },
    { metric: ANSWER, unit: 'ms', samples: answerMs },
    { metric: DELIVERED, unit: '%', samples: [(100 * inEngine) / answerMs.length] },
  ];
}

function totalCpuMs(cost: Cost): number {
  return Object.values(cost).reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}

/** Waits for the documents; answers how many have come, and when the engine was asked that had so many. */
async function arrived(stage: Stage, under: string, total: number): Promise<{ inEngine: number; atMs: number }> {
  const deadline = performance.now() + ARRIVE_MS;
  const last = total - 1;
  // Reading all of them to count costs the engine: not before the last one is there.
  await stage.reader
    .reads(`${under}/d${last}/n`, (answer) => answer.includes(`:${last}}`), ARRIVE_MS, { isLong: true })
    .catch(() => undefined);
  for (;;) {
    // What it answers with is what it had by then; the answer itself is megabytes.
    const atMs = performance.now();
    const inEngine = await documents(stage.engineUrl, under);
    if (inEngine === total || performance.now() > deadline) return { inEngine, atMs };
    await pause(LOOK_EVERY_MS);
  }
}

async function documents(engineUrl: string, under: string): Promise<number> {
  const { body } = await request(`${engineUrl}/v1/data${under}`);
  const { result = {} } = (await body.json()) as { result?: object };
  return Object.keys(result).length;
}

export const manyUpdatesScenario: Scenario = {
  name: 'many-updates',
  about: '5,000 updates on paths of their own, each a document of 1 KB behind a URL, from 8 publishers, one client.',
  rawIs: 'one process that reads the URLs and puts the documents into OPA, without any log',
  goals: [
    { metric: RATE, statistic: 'median', of: { system: 'raw' }, atLeast: 0.5, check: 0.1 },
    { metric: DELIVERED, statistic: 'median', of: 'number', atLeast: 100, check: 100 },
    { metric: RATE, statistic: 'median', of: { system: 'opal' }, atLeast: 1 },
  ],
  raw: async (bench) => measured(bench, await startBareStage(bench, { durable: false })),
  measure: async (bench, system) => measured(bench, await startStage(bench, system)),
};
