import { request } from 'undici';
import { type Measured, watch } from '../lib/figure.js';
import { reader } from '../lib/reader.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import { startSource } from '../lib/source.js';
import { folder, repository, SMALL_REPO } from '../lib/stage.js';
import { type System, startServer } from '../lib/system.js';
import { until } from '../lib/wait.js';
import { startBareOpa } from '../raw/bare-opa.js';

const TENANTS = 1_000;
const DOCUMENT_BYTES = 1_000;
const TIME = '1,000 tenants: client start to all in OPA';
const SERVER_CPU = 'server CPU for the start';
const CLIENT_CPU = 'client CPU for the start';
const WITHIN_MS = 60_000;

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  const { dir } = bench;
  const source = bench.keep(await startSource(dir));
  // Without what is the default: an environment variable takes 128 KB.
  const entries = Array.from({ length: TENANTS }, (_, n) => ({
    url: source.document(n, DOCUMENT_BYTES),
    topics: ['policy_data'],
    dst_path: `/acl/t${n}`,
  }));
  const repo = await repository(dir, SMALL_REPO);
  const server = bench.keep(
    await startServer(system, { dir: await folder(dir, 'server'), repoUrl: repo.url, entries }),
  );
  const [times, serverCpu, clientCpu]: [number[], number[], number[]] = [[], [], []];
  const used = watch({ server });
  for (let at = 0; at < bench.pick(5, 1); at++) {
    const before = server.usage().cpuMs;
    await using client = await system.launchClient({ dir: await folder(dir, `client-${at}`), serverUrl: server.url });
    const readMs = await allInEngine(client.engineUrl);
    times.push(readMs - client.startedMs);
    clientCpu.push(client.usage().cpuMs);
    serverCpu.push(server.usage().cpuMs - before);
  }
  return [
    { metric: TIME, unit: 'ms', samples: times, cost: used() },
    { metric: CLIENT_CPU, unit: 'ms', samples: clientCpu },
    { metric: SERVER_CPU, unit: 'ms', samples: serverCpu },
  ];
}

/**
 * Waits until the engine has the documents of all tenants; answers when it was asked and had them, on the clock of
 * `performance.now()`. The answer itself is a megabyte, which takes longer to write and to read than a look.
 */
async function allInEngine(engineUrl: string): Promise<number> {
  await until('the engine answers', WITHIN_MS, () => hasStarted(engineUrl));
  await using engine = await reader(engineUrl);
  // The last of the list, cheaply; then all of them, until none is missing.
  const last = TENANTS - 1;
  await engine.reads(`/acl/t${last}/n`, (answer) => answer.includes(`:${last}}`), WITHIN_MS, { isLong: true });
  let askedMs = 0;
  await until('all tenants are in the engine', WITHIN_MS, async () => {
    askedMs = performance.now();
    const { body } = await request(`${engineUrl}/v1/data/acl`);
    const { result = {} } = (await body.json()) as { result?: object };
    return Object.keys(result).length === TENANTS;
  });
  return askedMs;
}

async function hasStarted(engineUrl: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(`${engineUrl}/health`);
    await body.dump();
    return statusCode === 200;
  } catch {
    return false; // it does not listen yet
  }
}

/** All documents, which are read before, as one transaction of a bare OPA. */
async function raw(bench: Bench): Promise<readonly Measured[]> {
  const source = bench.keep(await startSource(bench.dir));
  const documents: string[] = [];
  for (let n = 0; n < TENANTS; n++) {
    const { body } = await request(source.document(n, DOCUMENT_BYTES));
    documents.push(await body.text());
  }
  const adds = documents.map((text, n) => `{"op":"add","path":"/acl/t${n}","value":${text}}`);
  const times: number[] = [];
  for (let at = 0; at < bench.pick(9, 3); at++) {
    await using engine = await startBareOpa(await folder(bench.dir, `opa-${at}`));
    const startMs = performance.now();
    const { statusCode, body } = await request(`${engine.url}/v1/data`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json-patch+json' },
      body: `[{"op":"add","path":"/acl","value":{}},${adds.join(',')}]`,
    });
    await body.dump();
    if (statusCode !== 204) throw new Error(`the engine answered ${statusCode}`);
    times.push(performance.now() - startMs);
  }
  return [{ metric: TIME, unit: 'ms', samples: times }];
}

export const tenantsScenario: Scenario = {
  name: 'tenants',
  about: 'A client starts where 1,000 tenants have a base entry each, a document of 1 KB behind a URL.',
  rawIs: 'the documents, read already, as one patch into an OPA that runs',
  goals: [
    { metric: TIME, statistic: 'median', of: { system: 'opal' }, atMost: 1 / 10 },
    { metric: TIME, statistic: 'median', of: { system: 'raw' }, atMost: 40, check: 100 },
  ],
  raw,
  measure,
};
