import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { backboneOffer } from '../support/backbone-servers.js';

/**
 * The short form of `npm run test:faults` (docs/internals/faults.md) with seeds that are always the same, so that a change is judged
 * by what it does and not by what was drawn this time. It counts faults and not seconds: a slow machine has as many. Other seeds
 * and longer runs are for whoever looks for faults.
 */

/** How many faults a run has: with SYNC_TEST_SOAK=1, which .ci/run sets, more of the same kinds. */
const FAULTS = process.env.SYNC_TEST_SOAK === '1' ? { server: '16', instances: '8' } : { server: '10', instances: '6' };

const SUBSCRIBERS = ['--subscribers', '40'];
const RUN = join(import.meta.dirname, '..', 'faults', 'run.js');

async function faults(args: readonly string[], { signal }: TestContext): Promise<void> {
  const child = spawn(process.execPath, [RUN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGTERM',
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  }
  const [code] = await once(child, 'close');
  assert.equal(code, 0, printed);
  assert.match(printed, /everything as promised/);
}

test('faults at random: one server, its log, clients, engines of both kinds and sources fail, and nothing is lost or out of order', async (t) => {
  await faults(['--seed', '2', '--faults', FAULTS.server, '--engine', 'both', ...SUBSCRIBERS], t);
});

const postgres = await backboneOffer('Postgres');
test('faults at random: two server instances and their backbone fail, and nothing is lost or out of order', {
  skip: postgres.missing,
}, async (t) => {
  await faults(
    ['--seed', '1', '--faults', FAULTS.instances, '--backbone', 'postgres', '--clients', '2', ...SUBSCRIBERS],
    t,
  );
});
