import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { it } from 'node:test';
import { z } from 'zod';
import * as bundle from './bundle.js';
import * as data from './data.js';
import * as frames from './frames.js';
import * as report from './report.js';
import * as session from './session.js';
import * as topics from './topics.js';
import * as updates from './updates.js';

/** What the wire was when somebody last looked at it: the version, and a hash of each schema and of what is written. */
const RECORDED: { version: number; hashes: Record<string, string> } = {
  version: 2,
  hashes: {
    'bundle.dataModule': '581efed9ccf51cb9',
    'bundle.opalPolicyNotice': 'c57693aef6e041d3',
    'bundle.policyBundle': '0f3c3de81cf67875',
    'bundle.policyModule': 'ed20ded57e6546ec',
    'bundle.policyNotice': '81d3e255563c0009',
    'data.callbackItem': '75b1fc6794599469',
    'data.dataSourceEntry': '75886d7eb5ce250c',
    'data.dataUpdate': '7d36883114e45e07',
    'data.entryConfig': '57821e0a65621e92',
    'data.fetcherConfig': '33150a8e8ecba214',
    'data.peerDataConfig': 'a5ead9d3ccd57a7d',
    'data.peerEntry': '874f61bea00cad8e',
    'data.peerUpdate': '4d8e095485d3a469',
    'data.serverDataSources': 'c4bb855f442488b6',
    'data.updateCallback': 'e2ae5fe3dffd8a51',
    'frames.frame': 'd45ab66e8c7039ae',
    'frames.notifyArguments': 'd0146c77ccca4d3c',
    'report.updateReport': 'bf52f22b9eed17da',
    'session.clientId': '130f89a894c648bd',
    'session.failure': '0a6756eb30f51753',
    'session.heartbeat': 'fa5079d1d62619d9',
    'session.policyStanding': '335a1df6d00f8191',
    'session.position': '6c7e4392c7cb1555',
    'session.sessionAnswer': '001e59142601ecbb',
    'session.sessionReport': 'd5ecab183e3dc993',
    'session.sessionSubscribe': '2811b57b0fdec949',
    'updates.loggedUpdate': 'b36ff6b7ddda93a9',
    'updates.updatesPage': '4eb3a77d09b24bc9',
    'header of the protocol': '0207ba8705cb18a1',
    'frames that are written': '734b0873c15fe5d0',
    'names of topics': '1a23b1b74ad1a880',
  },
};

/** Every schema of the wire by module and name, as JSON Schemas of what is accepted and of what it is read as. */
function wireSchemas(): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [module, exported] of Object.entries({ bundle, data, frames, report, session, updates })) {
    for (const [name, value] of Object.entries(exported)) {
      if (!(value instanceof z.ZodType)) continue;
      const [input, output] = (['input', 'output'] as const).map((io) =>
        z.toJSONSchema(value, { io, unrepresentable: 'any' }),
      );
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
      '  keep speaking the old version to peers that offer it, and say so in CHANGELOG.md and docs/pubsub.md.',
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
