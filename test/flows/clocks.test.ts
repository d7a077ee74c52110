import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { ClientsAnswer } from '../../src/wire/clients.js';
import type { InstancesAnswer } from '../../src/wire/fleet-views.js';
import type { TraceAnswer } from '../../src/wire/trace.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { fleetPeer } from '../support/fleet-peer.js';
import { field, postJson, request } from '../support/http.js';
import { startInstance } from '../support/instance.js';
import { runHere } from '../support/run-here.js';
import { until } from '../support/until.js';

const HOUR = 3_600_000;
const WITHIN = { withinMs: 30_000 };
/** Times of one story are closer than this, on a slow machine too. */
const CLOSE_MS = 60_000;
const redis = await backboneOffer('Redis');

/** The option of Node that has a program start with a clock that is ahead. */
function clockAhead(ms: number): string {
  const code = `const R=Date;globalThis.Date=class extends R{
    constructor(...a){if(a.length>0)super(...a);else super(R.now()+${ms})}
    static now(){return R.now()+${ms}}}`;
  return `--import=data:text/javascript,${encodeURIComponent(code)}`;
}

describe('clocks that differ', { skip: redis.missing ?? false }, () => {
  it('an instance an hour ahead, and clients of any clock: nobody is silent, and all times are of now', async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri, SYNC_HEARTBEAT_INTERVAL: '1' };
    await using right = await startInstance(env);
    await using ahead = await startInstance({ ...env, NODE_OPTIONS: clockAhead(HOUR) });
    await using near = await fleetPeer(right.url, 'near');
    await using far = await fleetPeer(ahead.url, 'far');
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }];
    const { json } = await postJson(`${right.url}/data/config`, { entries, reason: 'r' });
    const seq = Number(field(json, 'seq'));
    await until(() => near.seqs.includes(seq) && far.seqs.includes(seq), { ...WITHIN, what: 'both have heard' });
    const epoch = String(field(json, 'epoch'));
    const report = (peer: typeof near, theirs: number): void => {
      const at = Date.now() + theirs;
      const step = { seq, heard: at - 3, fetched: at - 3, applied: at - 2 };
      peer.report({ at, since: at - 5, position: { epoch, applied_through: seq }, steps: [step] });
    };
    report(near, -2 * HOUR);
    report(far, 5 * HOUR);

    for (const { url } of [right, ahead]) {
      const get = async <T>(path: string): Promise<T> => (await request(`${url}${path}`)).json as T;
      const trace = await until(
        async () => {
          const found = await get<TraceAnswer>(`/trace/${seq}`);
          // Other instances tell when a second after that it holds it, at most.
          const isTimed = found.clients.every((one) => one.applied_at != null);
          return found.counts.applied === 2 && isTimed ? found : undefined;
        },
        { ...WITHIN, what: 'both hold it, and when is known' },
      );
      const { from = Number.NaN, clients: counted, first, last } = trace.convergence ?? {};
      assert.equal(counted, 2);
      const isClose = (at: number | null | undefined): boolean => at != null && at >= from && at - from < CLOSE_MS;
      const times = [first, last, ...trace.stages.map(({ at }) => at), ...trace.clients.map((one) => one.applied_at)];
      assert(times.every(isClose), JSON.stringify(trace, null, 1));
      assert(Math.abs(trace.now - from) < CLOSE_MS, 'by the clock of who answers');

      const { now = 0, clients, incomplete } = await get<ClientsAnswer>('/clients');
      assert.equal(incomplete, null);
      assert.equal(clients.length, 2);
      for (const { connected_at, reported_at, since, client_id } of clients) {
        for (const at of [connected_at, reported_at, since]) {
          assert(Math.abs(now - (at ?? 0)) < CLOSE_MS, `${client_id}: ${now} ${connected_at} ${reported_at} ${since}`);
        }
      }
      // A busy machine may have a slow backbone for a while.
      const states = async () => (await get<InstancesAnswer>('/instances')).instances.map(({ state }) => state);
      const inStep = async () => isDeepStrictEqual(await states(), ['in_step', 'in_step']);
      await until(inStep, { withinMs: 20_000, what: 'both are in step' });
    }

    assert.equal(field(await right.health(), 'update_log', 'backbone', 'clock'), undefined);
    const said = field(await ahead.health(), 'update_log', 'backbone', 'clock');
    assert.match(String(said), /^the clock of this server is 3600 s ahead of that of the backbone$/);
    const { stdout } = await runHere('policysync', ['status', '--server-url', ahead.url]);
    assert.match(
      stdout,
      /\nClock: the clock of this server is 3600 s ahead of that of the backbone; set both by NTP\n/,
    );
    assert.match(stdout, /\nnear +healthy \d\S* s /);
    assert.match(stdout, /\n {2}its clock is 3 h behind that of the server: set both by NTP\n/, stdout);
    assert.match(stdout, /\n {2}its clock is 4 h ahead of that of the server: set both by NTP\n/, stdout);
    const ended = await ahead.terminate();
    assert.match(`${ended.stdout}${ended.stderr}`, /clock_differs/);
  });
});
