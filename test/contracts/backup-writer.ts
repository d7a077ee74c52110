import { randomBytes } from 'node:crypto';
import { createSpool } from '../../src/client/fetch/spool.js';
import type { BackupDocument } from '../../src/client/offline/backup-format.js';
import { writeBackup } from '../../src/client/offline/backup-writer.js';

/**
 * A process that writes one backup after the other until it is killed, and prints the number of each that is done; the
 * number is in it as `lastSeq`. Started by `backup.test.ts`. Arguments: path of the backup, spool folder, first number.
 */
const [, , path = '', dir = '', first = '1'] = process.argv;
const spool = await createSpool({ dir, limitBytes: 100_000_000 });
const documents: BackupDocument[] = [];
for (let index = 0; index < 20; index++) {
  const text = JSON.stringify(randomBytes(100_000).toString('hex'));
  const body = await spool.spool([Buffer.from(text)], new AbortController().signal);
  documents.push({
    layer: {
      id: String(index),
      path: ['d', String(index)],
      rank: { era: 1, seq: index, index: 0 },
      content: { kind: 'put', body },
    },
    blocked: undefined,
    entry: undefined,
  });
}
for (let lastSeq = Number(first); ; lastSeq++) {
  await writeBackup(path, {
    createdMs: Date.now(),
    directories: ['.'],
    scope: 'default',
    policy: undefined,
    position: { epoch: 'e', era: 1, next: 1, lastSeq, seen: new Map() },
    documents,
  });
  process.stdout.write(`${lastSeq}\n`);
}
