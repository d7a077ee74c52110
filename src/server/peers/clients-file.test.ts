import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { tempDir } from '../../../test/support/temp-dir.js';
import { until } from '../../../test/support/until.js';
import { silentLogger } from '../../lib/observe/log.js';
import { type KnownClient, newClient } from '../clients/known-client.js';
import { StateFiles } from '../clients/state-files.js';
import { ClientsFile, readClients } from './clients-file.js';

function client(clientId: string, more: Partial<KnownClient> = {}): KnownClient {
  const peer = { host: 'h', port: 1, topics: ['t'], connectedAtMs: 10 };
  const about = { instance: 'i', claimedMs: 10, spans: [{ from: 0, until: null }] };
  return { ...newClient({ kind: 'session', subject: null, clientId }, peer, about), ...more };
}

/** A server's clients and their file. */
function world(stateDir: string, patienceMs = 10_000) {
  const clients = new Map<string, KnownClient>();
  const watchers = new Set<(client: KnownClient, before: KnownClient | undefined) => void>();
  const files = new StateFiles();
  const file = new ClientsFile(
    { stateDir, instance: 'i', memoryMs: 0, patienceMs },
    {
      registry: {
        list: () => [...clients.values()],
        watch: (onChange) => {
          watchers.add(onChange);
          return () => watchers.delete(onChange);
        },
      },
      updates: { epoch: 'e', head: 0 },
      files,
      log: silentLogger(),
    },
  );
  const set = (next: KnownClient): void => {
    const before = clients.get(next.key);
    clients.set(next.key, next);
    for (const told of watchers) told(next, before);
  };
  return {
    file,
    files,
    here: () => [...clients.values()].filter(({ awaySinceMs }) => awaySinceMs === null).map(({ clientId }) => clientId),
    arrives: (name: string) => file.arrives(client(name), () => set(client(name))),
    leaves: (name: string) => {
      if (clients.has(client(name).key)) set(client(name, { awaySinceMs: 20 }));
    },
  };
}

async function expected(stateDir: string): Promise<string[] | undefined> {
  const stored = await readClients(stateDir, silentLogger());
  return stored?.clients.filter(({ awaySinceMs }) => awaySinceMs === null).map(({ clientId }) => clientId);
}

it('a crash at any moment leaves a file that expects everyone who was served', async () => {
  const names = ['a', 'b', 'c', 'd'];
  const step = fc.record({
    do: fc.constantFrom('arrives', 'leaves', 'write', 'look', 'settle'),
    name: fc.constantFrom(...names),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20, size: 'max' }), async (steps) => {
      await using folder = await tempDir();
      const { file, here, arrives, leaves } = world(folder.path);
      const running: Promise<void>[] = [];
      let writing = Promise.resolve();
      const look = async (): Promise<void> => {
        const served = here();
        const found = await expected(folder.path);
        for (const one of served) assert(found?.includes(one), `${one} is served, and ${found} are expected`);
      };
      for (const { do: what, name } of steps) {
        // A signal that is aborted already: it writes all once. There is one writer.
        if (what === 'write') {
          writing = writing.then(() => file.run(AbortSignal.abort()));
          running.push(writing);
        }
        if (what === 'arrives') running.push(arrives(name));
        if (what === 'leaves') leaves(name);
        if (what === 'settle') await Promise.all(running);
        if (what === 'look') await look();
      }
      await Promise.all(running);
      await look();
      await arrives('last'); // what left meanwhile was seen by no writer
      await file.run(AbortSignal.abort());
      assert.deepEqual((await expected(folder.path))?.toSorted() ?? [], here().toSorted());
    }),
    { numRuns: 100 },
  );
});

it('an arrival that a crash has cut off in the midst was not served, and is left out', async () => {
  await using folder = await tempDir();
  const { arrives } = world(folder.path);
  await arrives('a');
  await arrives('b');
  const path = join(folder.path, 'clients.jsonl');
  const whole = await readFile(path, 'utf8');
  await writeFile(path, whole.slice(0, -20));
  assert.deepEqual(await expected(folder.path), ['a']);
});

it('where an arrival cannot be stored there is no file, so that the next start knows that it does not know', async () => {
  await using folder = await tempDir();
  const { file, files, arrives } = world(folder.path);
  await arrives('a');
  const path = join(folder.path, 'clients.jsonl');
  await rm(path);
  await arrives('b');
  assert.deepEqual([await expected(folder.path), files.failing.length], [undefined, 1]);
  await arrives('c');
  assert.deepEqual(await expected(folder.path), ['a', 'b', 'c'], 'the next one brings all');
  await file.run(AbortSignal.abort());
  assert.deepEqual([await expected(folder.path), files.failing], [['a', 'b', 'c'], []]);
});

it('many arrivals at once take few writes, and those of one moment are in the file together', async () => {
  await using folder = await tempDir();
  const { arrives } = world(folder.path);
  const names = Array.from({ length: 1000 }, (_, at) => `client-${at}`);
  await Promise.all(names.map((name) => arrives(name)));
  assert.deepEqual((await expected(folder.path))?.toSorted(), names.toSorted());
  const lines = (await readFile(join(folder.path, 'clients.jsonl'), 'utf8')).trimEnd().split('\n');
  assert(lines.length < 30, `${lines.length} lines`);
});

it('a client waits for a disk that hangs no longer than a while, and the server says that the file fails', async () => {
  await using folder = await tempDir();
  const { files, arrives, here } = world(folder.path, 1);
  const path = join(folder.path, 'clients.jsonl');
  await arrives('a');
  await until(() => files.failing.length === 0, { withinMs: 5000, what: 'the file is written' });
  await rm(path);
  // Opened for writing, a pipe waits for a reader.
  await promisify(execFile)('mkfifo', [path]);
  await arrives('b');
  assert.deepEqual(here(), ['a', 'b']);
  assert.deepEqual(
    files.failing.map(({ file }) => file),
    ['clients.jsonl'],
  );
  const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  await until(async () => (await expected(folder.path)) === undefined, { withinMs: 5000, what: 'the pipe is removed' });
  await reader.close();
});
