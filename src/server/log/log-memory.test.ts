import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryLog } from '../../../test/support/memory-log-store.js';
import { JsonText } from '../../lib/json/json-text.js';
import { type Logger, silentLogger } from '../../lib/observe/log.js';
import { FoldedLog } from './folded-log.js';
import { bytesOf, fitOf, type MemoryFit, processLimits, roomFor } from './log-memory.js';

const MIB = 1024 * 1024;
/** Bytes beside what a server takes without entries. */
const room = (bytes: number) => ({ heapBytes: 10_000 * MIB, processBytes: 128 * MIB + bytes });

test('whether so many bytes of 100 fit: tight from 70 on, and until they are less than 60', () => {
  const table: readonly [number, MemoryFit, MemoryFit, MemoryFit][] = [
    // bytes, and what follows on fits, tight and exceeds
    [0, 'fits', 'fits', 'fits'],
    [59, 'fits', 'fits', 'fits'],
    [60, 'fits', 'tight', 'tight'],
    [69, 'fits', 'tight', 'tight'],
    [70, 'tight', 'tight', 'tight'],
    [99, 'tight', 'tight', 'tight'],
    [100, 'exceeds', 'exceeds', 'exceeds'],
  ];
  for (const [bytes, ...after] of table) {
    assert.deepEqual(
      (['fits', 'tight', 'exceeds'] as const).map((before) => fitOf(bytes, 100, before)),
      after,
    );
  }
});

test('the room for entries is what the heap or the process leaves, whichever is less', () => {
  assert.equal(roomFor({ heapBytes: 259 * MIB, processBytes: 500 * MIB }), 227 * MIB);
  assert.equal(roomFor({ heapBytes: 4000 * MIB, processBytes: 500 * MIB }), 372 * MIB);
  assert.equal(roomFor({ heapBytes: 4000 * MIB, processBytes: 64_000 * MIB }), 3968 * MIB);
  assert.equal(roomFor({ heapBytes: 16 * MIB, processBytes: 64 * MIB }), 1, 'never nothing to divide by');
  assert.ok(roomFor(processLimits()) > 1);
});

test('a log says what does not fit with its figures while it is loaded, and when it fits again', async () => {
  const store = new MemoryLog();
  const lines: string[] = [];
  const said =
    (level: string) =>
    (fields: object | string, text?: string): void =>
      void lines.push(`${level} ${JSON.stringify(fields)} ${text?.split(';')[0]}`);
  const log: Logger = { ...silentLogger(), info: said('info'), warn: said('warn'), error: said('error') };
  const open = (bytes: number) =>
    FoldedLog.open(
      store.handle(),
      {
        ...{ exclusive: true, patchesPerPath: 10, memory: room(bytes) },
        retention: { maxAgeMs: 60_000, maxRows: 1000 },
      },
      { log },
    );
  const each = bytesOf({ entries: 1, ended: 0, topics: 0, chars: 3 });
  const topic = bytesOf({ entries: 0, ended: 0, topics: 1, chars: 0 });
  const roomy = await open(100 * each);
  for (const path of ['/a', '/b', '/c']) {
    const entries = [
      { ...{ url: '', topics: ['t'], dst_path: path }, save_method: 'PUT' as const, data: JsonText.trusted('"x"') },
    ];
    await roomy.append({ id: path, publisher: null, reason: null, entries, callbacks: [] });
  }
  const bytes = 3 * each + topic;
  assert.deepEqual(roomy.memory, { entries: 3, bytes, limitBytes: 100 * each, fit: 'fits' });
  await roomy.close();
  assert.equal(lines.length, 0);

  const small = await open(3 * each);
  assert.deepEqual(lines.splice(0), [
    `error {"entries":3,"bytes":${bytes},"limit_bytes":${3 * each}} the live entries of the update log need more memory than this server has for them: it may end, also at its next start`,
  ]);
  const entries = [
    { url: '', topics: ['t'], dst_path: '/', save_method: 'PUT' as const, data: JsonText.trusted('{}') },
  ];
  await small.append({ id: 'all', publisher: null, reason: null, entries, callbacks: [] });
  assert.deepEqual(small.memory.fit, 'fits');
  assert.equal(small.memory.bytes, bytesOf({ entries: 1, ended: 0, topics: 1, chars: 2 }));
  assert.deepEqual(
    lines.map((line) => line.split(' ')[0]),
    ['info'],
  );
  await small.close();
});

test('characters of inline data are those of what is live, also of patches that lost operations', async () => {
  const options = { exclusive: true, patchesPerPath: 10, retention: { maxAgeMs: 60_000, maxRows: 1000 } };
  const log = await FoldedLog.open(new MemoryLog().handle(), options, { log: silentLogger() });
  const patch = async (data: string): Promise<void> => {
    const entries = [
      { url: '', topics: ['t'], dst_path: '/a', save_method: 'PATCH' as const, data: JsonText.trusted(data) },
    ];
    await log.append({ id: data, publisher: null, reason: null, entries, callbacks: [] });
  };
  await patch('[{"op":"add","path":"/x","value":1},{"op":"add","path":"/y","value":1}]');
  await patch('[{"op":"add","path":"/x","value":2}]');
  const texts = log.fold().map(({ entry }) => entry.data?.text ?? '');
  assert.deepEqual(texts, ['[{"op":"add","path":"/y","value":1}]', '[{"op":"add","path":"/x","value":2}]']);
  assert.equal(log.memory.bytes, bytesOf({ entries: 2, ended: 0, topics: 1, chars: texts.join('').length }));
  await log.close();
});

test('a deletion that has ended counts as long as it is kept', async () => {
  const options = { exclusive: true, patchesPerPath: 10, retention: { maxAgeMs: 60_000, maxRows: 1000 } };
  const log = await FoldedLog.open(new MemoryLog().handle(), options, { log: silentLogger() });
  const place = { url: '', topics: ['t'], dst_path: '/a' };
  const about = { publisher: null, reason: null, callbacks: [] };
  const data = JsonText.trusted('1');
  await log.append({ id: 'put', ...about, entries: [{ ...place, save_method: 'PUT', data }] });
  await log.append({ id: 'delete', ...about, entries: [{ ...place, save_method: 'DELETE', only_removes: true }] });
  assert.equal(log.memory.entries, 0);
  assert.equal(log.memory.bytes, bytesOf({ entries: 0, ended: 1, topics: 1, chars: 0 }));
  await log.close();
});
