import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { it } from 'node:test';
import * as z from 'zod';
import * as bundle from './bundle.js';
import * as updates from './catch-up-page.js';
import * as clientAsk from './client-ask.js';
import * as data from './data.js';
import * as frames from './frames.js';
import { jsonSchemaOf } from './lists.js';
import * as report from './report.js';
import * as session from './session.js';
import * as topics from './topics.js';

/**
 * What the wire was when somebody last looked at it: the version, and a hash of each schema and of
 * what is written.
 */
const RECORDED: { version: number; hashes: Record<string, string> } = {
  version: 2,
  hashes: {
    'bundle.dataModule': '581efed9ccf51cb9',
    'bundle.opalPolicyNotice': '6ff3016b7ceeb5b6',
    'bundle.policyBundle': 'd7ab73544d6d6207',
    'bundle.policyModule': 'ed20ded57e6546ec',
    'bundle.policyNotice': 'c1e1abc3d2939ae1',
    'clientAsk.answer': '13a35f93342d1539',
    'clientAsk.ask': '12849faed26c8dd9',
    'data.callbackItem': '75b1fc6794599469',
    'data.dataSourceEntry': 'cae3e4ea7a96f195',
    'data.dataUpdate': 'ef7953820fb608c7',
    'data.entryConfig': '57821e0a65621e92',
    'data.fetcherConfig': '33150a8e8ecba214',
    'data.peerDataConfig': '4e6ce401fc17e12f',
    'data.peerEntry': '93c6bd5c8db21c4d',
    'data.peerUpdate': 'c1f1117b18bd5edf',
    'data.serverDataSources': '1d932ea4c7aa953a',
    'data.updateCallback': '2467c4edc52798d6',
    'frames.frame': 'd45ab66e8c7039ae',
    'frames.notifyArguments': 'd0146c77ccca4d3c',
    'report.updateReport': '16e552c9e0c1d66c',
    'session.asks': '6fa991bd86910615',
    'session.changeStep': '4f23f91e6daa1247',
    'session.clientId': '130f89a894c648bd',
    'session.failure': 'a14dff54b3dc49ce',
    'session.heartbeat': 'ba82ad1ecf570578',
    'session.policyState': '2dc7aa74f2419a0b',
    'session.position': '6c7e4392c7cb1555',
    'session.sessionAnswer': '8ed7d97096ac6638',
    'session.sessionReport': 'c2c617f57d372cb2',
    'session.sessionSubscribe': 'a07acfddb7ef9fe8',
    'updates.loggedUpdate': '36362bedf1ad82ae',
    'updates.updatesPage': 'e31e1f6cb5a8ee35',
    'header of the protocol': '0207ba8705cb18a1',
    'frames that are written': '734b0873c15fe5d0',
    'names of topics': '1a23b1b74ad1a880',
  },
};

/**
 * Every schema of the wire by module and name, as JSON Schemas of what is accepted and of what it
 * is read as.
 */
function wireSchemas(): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [module, exported] of Object.entries({ bundle, clientAsk, data, frames, report, session, updates })) {
    for (const [name, value] of Object.entries(exported)) {
      if (!(value instanceof z.ZodType)) continue;
      const [input, output] = (['input', 'output'] as const).map((io) => jsonSchemaOf(value, { io }));
      found[`${module}.${name}`] = { input, output };
    }
  }
  return found;
}

/** Texts that go out, where no schema says how. */
const WRITTEN = {
  'header of the protocol': frames.PROTOCOL_HEADER,
  'frames that are written': [
    frames.requestFrame('m', { a: 1 }, 'c'),
    frames.responseFrame(true, 'bool', 'c'),
    frames.notifyFrame('t', '{"d":1}', { subscription: 's', subscriber: 'u', call: 'c' }),
  ],
  'names of topics': [
    topics.policyTopic('a/b'),
    topics.opalPolicyTopic('a/b'),
    topics.expandTopics(['p:a/b']),
    topics.ALL_TOPICS,
  ],
};

it('the wire is what was recorded', () => {
  const hashes = Object.fromEntries(
    Object.entries({ ...wireSchemas(), ...WRITTEN }).map(([name, value]) => [
      name,
      createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16),
    ]),
  );
  const now = { version: frames.PROTOCOL_VERSION, hashes };
  assert(Object.keys(hashes).length >= 15, 'schemas were not found');
  assert.deepEqual(
    now,
    RECORDED,
    [
      'The wire has changed: see the lines below.',
      '- Would a peer of the version before misread it, or be misread? Then raise PROTOCOL_VERSION (src/wire/frames.ts),',
      '  keep speaking the old version to peers that offer it, and say so in CHANGELOG.md and docs/reference/wire-protocol.md.',
      '- Is it only more than before (an optional member, a schema that nobody else reads), or a new release of zod that',
      '  describes the same schema in other words? Then the version stays.',
      `In either case record it in src/wire/protocol.test.ts:\n${JSON.stringify(now, null, 2)}`,
      differences(now.hashes, RECORDED.hashes),
    ].join('\n'),
  );
});

function differences(now: Record<string, string>, recorded: Record<string, string>): string {
  const names = new Set([...Object.keys(now), ...Object.keys(recorded)]);
  const changed = [...names].filter((name) => now[name] !== recorded[name]);
  return `changed: ${changed.join(', ') || 'only the version'}`;
}
