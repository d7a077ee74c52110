import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { type BackboneKind, backboneOffer } from '../support/backbone-servers.js';
import { type StartedCommand, startCommand } from '../support/command.js';
import { postJson, request } from '../support/http.js';
import { memoryGroup } from '../support/memory-group.js';
import { tempDir } from '../support/temp-dir.js';

/** A server that runs within its limit can start within it: what it needs at a start is about what it had when it was killed. */

const LISTENS = /"url":"(http:[^"]+)".*listening/;
const ENTRIES = 100_000;
const IN_UPDATE = 5000;
const STARTS = 2;
/** Of the memory while it ran. */
const AT_MOST = 1.2;

/** Where its log is: on its disk, or in a backbone at a URI. */
interface Place {
  readonly stateDir: string;
  readonly uri: string | undefined;
  /** The control group that it runs in. */
  readonly group?: string | undefined;
}

async function startServer({ stateDir, uri, group }: Place): Promise<{ command: StartedCommand; url: string }> {
  const args = ['run', '--server-bind-port', '0', '--state-dir', stateDir];
  const env = { SYNC_POLICY_GATE: 'off', ...(uri === undefined ? {} : { SYNC_BROADCAST_URI: uri }) };
  const command = startCommand('server', args, env, { group });
  const [, url = ''] = await command.says(LISTENS);
  assert.equal((await request(`${url}/healthcheck`)).status, 200);
  return { command, url };
}

/** Highest resident memory so far, in MB. */
async function peakMb({ process }: StartedCommand): Promise<number> {
  const status = await readFile(`/proc/${process.pid}/status`, 'utf8');
  return Number(/VmHWM:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
}

function entry(index: number): object {
  return { url: '', topics: ['policy_data'], dst_path: `/users/d${index}`, data: { index, pad: 'x'.repeat(180) } };
}

async function startsInWhatItRanIn(place: Place, t: TestContext, starts = STARTS): Promise<void> {
  let ran = 0;
  {
    const { command, url } = await startServer(place);
    await using _ended = command;
    for (let from = 0; from < ENTRIES; from += IN_UPDATE) {
      const entries = Array.from({ length: IN_UPDATE }, (_, at) => entry(from + at));
      assert.equal((await postJson(`${url}/data/config`, { entries })).status, 200);
    }
    ran = await peakMb(command);
  }
  for (let start = 1; start <= starts; start++) {
    const { command, url } = await startServer(place);
    await using _ended = command;
    assert.match((await request(`${url}/metrics`)).text, new RegExp(`^policysync_log_entries ${ENTRIES}$`, 'm'));
    const started = await peakMb(command);
    t.diagnostic(`start ${start} took ${Math.round(started)} MB; it ran in ${Math.round(ran)}`);
    assert.ok(started <= AT_MOST * ran, `start ${start} took ${started} MB; it ran in ${ran}`);
  }
}

const NOT_LINUX = process.platform === 'linux' ? undefined : 'memory of a process is read from /proc';
const ONLY_IN_CI = '100,000 entries in a backbone: only with SYNC_TEST_SOAK=1, which .ci/run sets';

test(`a server with ${ENTRIES} entries that is killed starts again with the memory that it ran in`, {
  skip: NOT_LINUX ?? false,
}, async (t) => {
  await using dir = await tempDir();
  await startsInWhatItRanIn({ stateDir: dir.path, uri: undefined }, t);
});

const GROUP_MB = 500;
const GROUP_STARTS = 10;

test(`in a control group of ${GROUP_MB} MB one with ${ENTRIES} entries runs, is killed and starts again, ${GROUP_STARTS} times`, {
  skip: NOT_LINUX ?? (process.env.SYNC_TEST_LONG === '1' ? false : 'eleven starts: only with SYNC_TEST_LONG=1'),
}, async (t) => {
  await using group = await memoryGroup(GROUP_MB * 1024 * 1024);
  if (group === undefined) {
    t.skip('nobody but the administrator may make a control group here');
    return;
  }
  await using dir = await tempDir();
  await startsInWhatItRanIn({ stateDir: dir.path, uri: undefined, group: group.procs }, t, GROUP_STARTS);
  t.diagnostic(`the group had at most ${Math.round((await group.peakBytes()) / 1024 / 1024)} MB`);
});

for (const kind of ['Postgres', 'Redis', 'NATS'] as const satisfies readonly BackboneKind[]) {
  const offer = await backboneOffer(kind);
  test(`${kind}: a server with ${ENTRIES} entries that is killed starts again with the memory that it ran in`, {
    skip: NOT_LINUX ?? offer.missing ?? (process.env.SYNC_TEST_SOAK === '1' ? false : ONLY_IN_CI),
  }, async (t) => {
    await using backbone = await offer.start({ isHasty: true });
    await using dir = await tempDir();
    await startsInWhatItRanIn({ stateDir: dir.path, uri: backbone.uri }, t);
  });
}
