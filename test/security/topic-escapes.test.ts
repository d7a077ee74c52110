import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { field, postJson, request } from '../support/http.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** A token that is limited to `acme` must not reach another topic, by whatever spelling and on whatever surface. */

const OWN = 'acme';
const FOREIGN = 'other';
/** What stands for more, or for the own topic only nearly. Everything here is another topic than `acme`. */
const ESCAPES = [
  FOREIGN,
  '*',
  '#',
  '+',
  'a*',
  '.*',
  '',
  ' ',
  '/',
  'acme/*',
  'acme/../other',
  '../other',
  'acme/sub',
  'acme/',
  '/acme',
  'ACME',
  'acme ',
  ' acme',
  'acme\u0000',
  'acme\u0000other',
  'acme,other',
  'acme\nother',
  'acmé',
  'a\u0063me\u200b',
  'acm',
  'acmee',
  ':acme',
  'acme:',
  'x:acme',
  'acme:other',
  'default:acme',
  'default:policy:.',
  'policy:.',
  'policy:acme',
  '__EventNotifier_ALL_TOPICS__',
  '__opal_stats_add',
  '__opal_stats_acme',
  '__proto__',
  'constructor',
  '%61cme',
  'acme%2fother',
];
const SECRET = 'what only others may know';
const entry = (topics: readonly string[], path: string, value: unknown = {}) => ({
  url: '',
  topics,
  dst_path: path,
  data: { value },
});

describe('a token that is limited to a topic', () => {
  let server: StartedServer;
  let limited: Record<'datasource' | 'client', string>;
  let unlimited: string;
  let witness: StartedPeer;

  before(async () => {
    server = await startServer({ ...withKeys(), SYNC_STATISTICS_ENABLED: 'true' });
    const claims = { permitted_topics: [OWN] };
    limited = {
      datasource: await tokenOf(server.url, { type: 'datasource', claims }),
      client: await tokenOf(server.url, { type: 'client', claims }),
    };
    unlimited = await tokenOf(server.url, { type: 'datasource' });
    witness = await startPeer(server.url, bearer(unlimited));
    assert.equal(await witness.call('subscribe', { topics: [FOREIGN] }), true);
    for (const body of [
      { entries: [entry([FOREIGN], '/secret', SECRET)], reason: SECRET },
      { entries: [entry([OWN], '/own', 1), entry([FOREIGN], '/both', SECRET)] },
    ]) {
      assert.equal((await postJson(`${server.url}/data/config`, body, bearer(unlimited))).status, 200);
    }
    await witness.notified(2);
  });
  after(async () => {
    await witness?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  /** What the log has, to whoever may see all. */
  const everything = async (): Promise<string> =>
    (await request(`${server.url}/data/config`, { headers: bearer(unlimited) })).text;

  it('publishes on no other topic over HTTP, alone or beside its own', async () => {
    const before = await everything();
    for (const topic of ESCAPES) {
      for (const topics of [[topic], [OWN, topic], [topic, OWN]]) {
        const answer = await postJson(
          `${server.url}/data/config`,
          { entries: [entry(topics, '/x')] },
          bearer(limited.datasource),
        );
        assert(
          answer.status === 401 || answer.status === 422,
          `${JSON.stringify(topics)}: ${answer.status} ${answer.text}`,
        );
      }
      const beside = { entries: [entry([OWN], '/own'), entry([topic], '/x')] };
      const answer = await postJson(`${server.url}/data/config`, beside, bearer(limited.datasource));
      assert(answer.status === 401 || answer.status === 422, `beside, ${JSON.stringify(topic)}: ${answer.status}`);
    }
    assert.equal(await everything(), before);
  });

  it('publishes on no other topic over the socket, whatever the call says', async () => {
    const before = await everything();
    await using peer = await startPeer(server.url, bearer(limited.datasource));
    for (const topic of ESCAPES.filter((one) => !one.startsWith('__opal_stats'))) {
      for (const args of [
        { topics: [topic], data: { entries: [entry([topic], '/x')] } },
        { topics: [OWN], data: { entries: [entry([topic], '/x')] } },
        { topics: [OWN, topic], data: { entries: [entry([OWN], '/x')] } },
        { topics: topic, data: { entries: [entry([OWN, topic], '/x')] }, notifier_id: 'server', sync: true },
      ]) {
        assert.equal(await peer.call('publish', args), false, JSON.stringify(args));
      }
    }
    assert.equal(await everything(), before);
    assert.equal((await witness.notified(2)).length, 2, 'the others hear nothing of it');
  });

  it('subscribes to no other topic, alone, beside its own, or as a session', async () => {
    for (const headers of [{}, { 'x-sync-protocol': '2' }]) {
      await using peer = await startPeer(server.url, { ...bearer(limited.client), ...headers });
      for (const topic of ESCAPES) {
        assert.equal(await peer.call('subscribe', { topics: [topic] }), false, JSON.stringify(topic));
        assert.equal(await peer.call('subscribe', { topics: topic }), false, JSON.stringify(topic));
        assert.equal(await peer.call('subscribe', { topics: [OWN, topic] }), false, `beside ${JSON.stringify(topic)}`);
      }
      await peer.call('unsubscribe', { topics: [FOREIGN] });
      const session = await peer.call('subscribe', {
        topics: [FOREIGN],
        client_id: `spy-${Object.keys(headers).length}`,
      });
      assert(session === false || field(session, 'accepted') === false, JSON.stringify(session));
      const more = { entries: [entry([FOREIGN], '/secret', SECRET)] };
      assert.equal((await postJson(`${server.url}/data/config`, more, bearer(unlimited))).status, 200);
      assert.equal(await peer.call('_ping_', {}), 'pong');
      assert(!JSON.stringify(peer.frames).includes(SECRET));
    }
  });

  it('reads nothing of another topic, whatever it asks for', async () => {
    const queries = [
      '',
      ...ESCAPES.map((topic) => `topics=${encodeURIComponent(topic)}`),
      `topics=${OWN}&topics=${FOREIGN}`,
      `topics=${OWN},${FOREIGN}`,
    ];
    for (const query of queries) {
      for (const path of [
        '/data/config?',
        '/data/updates?after=0&',
        '/data/log?',
        '/data/log?limit=1000&',
        '/clients?',
        '/statistics?',
        '/pubsub_client_info?',
      ]) {
        for (const token of Object.values(limited)) {
          const answer = await request(`${server.url}${path}${query}`, {
            headers: { ...bearer(token), 'x-sync-protocol': '2' },
          });
          assert(answer.status < 500, `${path}${query}: ${answer.status} ${answer.text}`);
          assert(!answer.text.includes(SECRET), `${path}${query} shows it`);
          assert(!answer.text.includes('/secret') && !answer.text.includes('/both'), `${path}${query} names its path`);
        }
      }
    }
  });

  it('has nothing of another topic fetched again', async () => {
    for (const topic of ESCAPES) {
      const answer = await postJson(`${server.url}/data/refresh`, { topics: [topic] }, bearer(limited.datasource));
      const refreshed = field(answer.json, 'entries');
      assert(answer.status >= 400 || refreshed === 0, `${JSON.stringify(topic)}: ${answer.text}`);
    }
    const all = await postJson(`${server.url}/data/refresh`, { path: '/' }, bearer(limited.datasource));
    assert.equal(field(all.json, 'entries') ?? 0, 0, 'only entries with a URL, and of its own topic');
  });
});
