import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { pino } from 'pino';
import { enginelessFleet } from '../support/engineless-client.js';
import { field } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { baseEntries, publish } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { patience, until } from '../support/until.js';

/**
 * Very many clients come back at once after a restart of their server. They are real but for their
 * engines. How they spread is told by what each one waited, not by how fast all of it goes.
 */

/** The thousand in long runs (SYNC_TEST_LONG=1); fewer, beyond what the server takes for quiet times, in ordinary ones. */
const MANY = process.env.SYNC_TEST_LONG === '1' ? 1000 : 250;
/** Those that have a document from a data source. */
const WITH_SOURCE = 20;
const WITHIN = { withinMs: 200_000 };

/** A data source that says how it was asked. */
async function startSource() {
  const asked: ('plain' | 'conditional')[] = [];
  const server = createServer(({ headers }, response) => {
    const isSame = headers['if-none-match'] === '"1"';
    asked.push(isSame ? 'conditional' : 'plain');
    if (isSame) response.writeHead(304, { etag: '"1"' }).end();
    else response.writeHead(200, { 'content-type': 'application/json', etag: '"1"' }).end('{"from":"source"}');
  });
  return { ...(await listening(server)), asked };
}

test('clients that all lose their server at once spread out, converge, and spare the data source', async (t) => {
  await using folder = await tempDir();
  await using source = await startSource();
  const env = baseEntries({ url: `${source.url}/doc`, dst_path: '/doc', topics: ['sourced'] });
  await using first = await startServer(env, { stateDir: folder.path });
  const topics = Array.from({ length: MANY }, (_, n) => (n < WITH_SOURCE ? 'policy_data,sourced' : 'policy_data'));
  /** The first wait of each client before it came again (ms). */
  const waits = new Map<number, number>();
  await using fleet = await enginelessFleet(first.url, topics, {
    env: { SYNC_RECONNECT_MAX: '5' },
    log: (client) =>
      pino(
        { base: null },
        {
          write: (text) => {
            const line: unknown = JSON.parse(text);
            if (field(line, 'msg') !== 'not connected' || waits.has(client)) return;
            waits.set(client, Number(field(line, 'retry_in_ms')));
          },
        },
      ),
  });
  const { clients } = fleet;
  const last = await publish(first.url, { dst_path: '/n', data: 0 });
  const holds = (text: string): boolean => clients.every((client) => client.text('/n') === text);
  await until(() => holds('0'), { ...WITHIN, what: 'all have the first update' });
  const sourced = clients.slice(0, WITH_SOURCE);
  await until(() => sourced.every((client) => client.text('/doc') !== undefined), { ...WITHIN, what: 'the document' });
  const writes = clients.map((client) => client.writes);
  for (const { catchUps } of clients) catchUps.length = 0;
  const [askedBefore, cpuBefore] = [source.asked.length, process.cpuUsage()];
  waits.clear();

  await first.stop();
  await using second = await startServer(
    { ...env, SYNC_SERVER_BIND_PORT: String(first.port) },
    { stateDir: folder.path },
  );
  for (let n = 1; n <= 5; n++) await publish(second.url, { dst_path: '/n', data: n });
  await until(() => holds('5'), { ...WITHIN, what: 'all have what was published while they were away' });
  const head = last + 5;
  await until(() => clients.every(({ data }) => data.logPosition?.applied_through === head), {
    ...WITHIN,
    what: 'all positions are at the head',
  });
  const settled = (): boolean => sourced.every(({ data }) => data.pending.length === 0);
  await until(settled, { ...WITHIN, what: 'all base entries were asked for again' });
  const cpu = process.cpuUsage(cpuBefore);

  // Of their own accord: a random part of a second before the first attempt.
  assert.equal(waits.size, MANY, 'all were cut off');
  const soon = [...waits.values()].filter((ms) => ms < 100).length;
  assert(soon < MANY / 5, `${soon} of ${MANY} come again in the first tenth of a second`);
  assert(Math.max(...waits.values()) > 900);

  // By the hint of the server: a random part of the time that it names. A few find it quiet still, and more the slower they return.
  const catchUps = clients.flatMap((client) => client.catchUps);
  const hinted = catchUps.filter(({ spreadMs }) => spreadMs > 0);
  const quick = MANY / patience();
  assert(hinted.length > quick * 0.7, `${hinted.length} hints`);
  assert(Math.max(...hinted.map(({ spreadMs }) => spreadMs)) > quick * 3);
  const asked = hinted.filter(({ spreadMs, waitedMs }) => spreadMs > quick * 2 && waitedMs !== undefined);
  const early = asked.filter(({ spreadMs, waitedMs = 0 }) => waitedMs < spreadMs / 10).length;
  assert(asked.length > quick / 4 && early < asked.length / 5, `${early} of ${asked.length} ask at once`);

  // Each asks the source once for each time that it came back, and is given no body again.
  const questions = source.asked.slice(askedBefore);
  assert(questions.length <= sourced.flatMap((client) => client.catchUps).length, `${questions.length} questions`);
  assert.deepEqual(new Set(questions), new Set(['conditional']));
  // Documents that the engine has already are not written again.
  assert(clients.every((client, at) => client.writes - (writes[at] ?? 0) <= 5));
  const cpuMs = Math.round((cpu.user + cpu.system) / 1000);
  t.diagnostic(
    `${catchUps.length} connections, ${questions.length} questions, ${cpuMs} ms of CPU for all and the server`,
  );
});
