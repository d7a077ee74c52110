import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, beforeEach, describe, it } from 'node:test';
import { until } from '../../../test/support/until.js';
import { errorText } from '../../lib/errors.js';
import type { ArrivingBody } from './arriving-file.js';
import { createSpool, type OwnedBody } from './spool.js';

const never = new AbortController().signal;

function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

async function* pieces(text: string, size = 7): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function streamed(body: OwnedBody): Promise<string> {
  const stream = body.stream();
  return typeof stream === 'string' ? stream : text(stream);
}

describe('spool', () => {
  let root: string;
  let dir: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'spool-'));
  });
  after(() => rm(root, { recursive: true }));
  beforeEach(async () => {
    dir = join(await mkdtemp(join(root, 'test-')), 'a', 'spool');
  });

  const small = ' \n{"name":"é😀","n":12345678901234567890,"x":1.0} \n';
  const large = JSON.stringify({ list: Array.from({ length: 50 }, (_, index) => `entry é ${index}`) }, null, 2);

  it('keeps a small body in memory, byte for byte', async () => {
    const spool = await createSpool({ dir, limitBytes: 1000 });
    await using body = await spool.spool(pieces(small), never);
    assert.equal(body.hash, sha256(small));
    assert.equal(body.sizeBytes, Buffer.byteLength(small));
    assert.equal(body.text(), small);
    assert.equal(body.stream(), small);
    assert.deepEqual(await readdir(dir), []);
  });

  it('takes pieces that are all here as it takes those that arrive', async () => {
    const spool = await createSpool({ dir, memoryLimitBytes: 5000, limitBytes: 6000 });
    const end = async (source: Parameters<typeof spool.spool>[0]): Promise<unknown> => {
      try {
        await using body = await spool.spool(source, never);
        return [body.hash, body.sizeBytes, body.text(), (await readdir(dir)).length];
      } catch (error) {
        return errorText(error);
      }
    };
    const long = `"${'é'.repeat(2600)}"`;
    for (const text of [small, large, long, `"${long}"`, 'null', '', ' ', '{"a":', '"\n"', '1 2', `${long}${long}`]) {
      const bytes = Buffer.from(text);
      const here = [bytes.subarray(0, 3), bytes.subarray(3, 30), bytes.subarray(30)];
      assert.deepEqual(await end(here), await end(pieces(text)), text);
    }
    const notUtf8 = [Buffer.from([0x22, 0xff, 0x22])];
    assert.match(String(await end(notUtf8)), /not JSON/);
    await assert.rejects(spool.spool([Buffer.from('1')], AbortSignal.abort(new Error('over'))), /over/);
  });

  it('keeps a large body in a file that only its owner can read, until it is disposed of', async () => {
    const spool = await createSpool({ dir, memoryLimitBytes: 100, limitBytes: 10_000 });
    const body = await spool.spool(pieces(large), never);
    const [name, ...others] = await readdir(dir);
    assert.ok(name !== undefined && others.length === 0);
    assert.equal((await stat(join(dir, name))).mode & 0o777, 0o600);
    assert.equal((await stat(dir)).mode & 0o777, 0o700);
    assert.equal(await readFile(join(dir, name), 'utf8'), large);
    assert.equal(body.hash, sha256(large));
    assert.equal(body.sizeBytes, Buffer.byteLength(large));
    assert.equal(body.text(), large);
    assert.equal(await streamed(body), large);
    assert.equal(await streamed(body), large, 'can be read again');
    await body.dispose();
    await body.dispose();
    assert.deepEqual(await readdir(dir), []);
  });

  it('decides between memory and file by size, exactly', async () => {
    const spool = await createSpool({ dir, memoryLimitBytes: 10, limitBytes: 11 });
    await using atLimit = await spool.spool(pieces('"12345678"', 3), never);
    assert.deepEqual(await readdir(dir), []);
    assert.equal(atLimit.text(), '"12345678"');
    await using above = await spool.spool(pieces('"123456789"', 3), never);
    assert.equal((await readdir(dir)).length, 1);
    assert.equal(above.text(), '"123456789"');
    await assert.rejects(spool.spool(pieces('"1234567890"', 3), never), {
      code: 'fetch_too_large',
      message: /11 bytes/,
    });
    assert.equal((await readdir(dir)).length, 1, 'nothing of the refused one is left');
  });

  it('refuses what is not exactly one JSON value and leaves nothing behind', async () => {
    const spool = await createSpool({ dir, memoryLimitBytes: 8, limitBytes: 10_000 });
    const bad: [string, RegExp][] = [
      ['', /unexpected end after 0 bytes/],
      ['<html><body>Please log in</body></html>', /unexpected "<" at byte 0/],
      [large.slice(0, -1), /unexpected end after \d+ bytes: expected "," or "}"/],
      [`${large}x`, /unexpected "x" at byte \d+: expected nothing after the value/],
    ];
    for (const [content, message] of bad) {
      await assert.rejects(spool.spool(pieces(content), never), { code: 'fetch_not_json', message });
      assert.deepEqual(await readdir(dir), []);
    }
  });

  it('refuses what is nested too deep below the path that it is for', async () => {
    const spool = await createSpool({ dir, limitBytes: 100_000 });
    const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    const take = (text: string, source = pieces(text, 5000)) => spool.spool(source, never, undefined, 2);
    await using _body = await take(nested(9_998));
    await assert.rejects(take(nested(9_999)), {
      code: 'fetch_not_json',
      message: 'data may be nested 10000 levels deep, and 2 of them are its path: nested deeper than 9998 at byte 9998',
    });
    await assert.rejects(spool.spool([Buffer.from(nested(20))], never, undefined, 9_990), { code: 'fetch_not_json' });
  });

  it('refuses a number that keeps engines busy', async () => {
    const spool = await createSpool({ dir, limitBytes: 100_000 });
    const number = (digits: number): string => `["${'x'.repeat(20_000)}",${'7'.repeat(digits)}]`;
    await using _body = await spool.spool(pieces(number(2_000), 500), never);
    await assert.rejects(spool.spool(pieces(number(2_001), 500), never), {
      code: 'fetch_not_json',
      message: /^a number of more than 2000 digits at byte/,
    });
  });

  it('leaves nothing behind when the source fails or the signal aborts', async () => {
    const spool = await createSpool({ dir, memoryLimitBytes: 8, limitBytes: 10_000, pieceBytes: 1 });
    const broken = new Error('connection reset');
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield* pieces(large.slice(0, 200));
      assert.equal((await readdir(dir)).length, 1);
      throw broken;
    }
    await assert.rejects(spool.spool(failing(), never), broken);
    assert.deepEqual(await readdir(dir), []);

    const stop = new AbortController();
    const reason = new Error('stopped');
    let closed = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        yield* pieces(large.slice(0, 200));
        stop.abort(reason);
        for (;;) yield Buffer.from(' ');
      } finally {
        closed = true;
      }
    }
    await assert.rejects(spool.spool(endless(), stop.signal), reason);
    assert.ok(closed, 'the source is told that nobody reads on');
    assert.deepEqual(await readdir(dir), []);
  });

  it('reads no faster than it writes: while a piece is written, one more is asked for', async () => {
    const spool = await createSpool({ dir, memoryLimitBytes: 0, limitBytes: 10_000, pieceBytes: 100 });
    let given = 0;
    const seenOnDisk: number[] = [];
    async function* source(): AsyncGenerator<Uint8Array> {
      for await (const piece of pieces(large, 100)) {
        const [name] = await readdir(dir);
        seenOnDisk.push(name === undefined ? 0 : (await stat(join(dir, name))).size);
        assert(given - (seenOnDisk.at(-1) ?? 0) <= 2 * 100);
        given += piece.length;
        yield piece;
      }
    }
    await using body = await spool.spool(source(), never);
    assert.equal(body.sizeBytes, given);
    assert.ok(seenOnDisk.length > 5);
  });

  it('lets others read a large body along while it arrives, all but its end', async () => {
    const spool = await createSpool({ dir, limitBytes: 100_000, pieceBytes: 1000, largeBytes: 2000 });
    const whole = `{"text":"${'é'.repeat(40_000)}"}`;
    const document = `${whole}\n${' '.repeat(5000)}`;
    let arriving: ArrivingBody | undefined;
    let given = '';
    let reading: Promise<void> | undefined;
    const readAlong = async (from: ArrivingBody): Promise<void> => {
      for await (const piece of from.pieces(never)) given += Buffer.from(piece).toString('latin1');
    };
    const body = await spool.spool(pieces(document, 500), never, (from) => {
      arriving = from;
      assert.equal(from.body, undefined);
      reading = readAlong(from);
    });
    assert(arriving !== undefined);
    assert.equal(arriving.body, body);
    const openBytes = Buffer.byteLength(whole) - (Buffer.byteLength(whole) % 500);
    await until(() => given.length >= openBytes, { withinMs: 20_000, what: 'most of it is given' });
    await using _other = await spool.spool(pieces(document, 500), never); // more would be given by now
    assert.equal(given.length, openBytes);
    assert.throws(() => JSON.parse(Buffer.from(given, 'latin1').toString()), 'it is no whole value yet');
    arriving.release();
    await reading;
    assert.equal(Buffer.from(given, 'latin1').toString(), document);
    await body.dispose();
  });

  it('tells who reads along that a large body does not come, or is let go of', async () => {
    const options = { dir, memoryLimitBytes: 0, limitBytes: 10_000, pieceBytes: 100, largeBytes: 200 };
    const spool = await createSpool(options);
    const endings: Promise<string>[] = [];
    const readAlong = (from: ArrivingBody): void =>
      void endings.push(text(Readable.from(from.pieces(never))).catch((error: unknown) => errorText(error)));
    await assert.rejects(spool.spool(pieces(`${large}}`), never, readAlong), { code: 'fetch_not_json' });
    const body = await spool.spool(pieces(large), never, readAlong);
    await body.dispose();
    const [broken = '', disposed = '', ...more] = await Promise.all(endings);
    assert.deepEqual(more, []);
    assert.match(broken, /not JSON/);
    assert.match(disposed, /let go of/);
    assert.deepEqual(await readdir(dir), []);
  });

  it('lets go of a large body that is read along when the reader ends', async () => {
    const options = { dir, memoryLimitBytes: 0, limitBytes: 100_000, pieceBytes: 1000, largeBytes: 2000 };
    const spool = await createSpool(options);
    const stop = new AbortController();
    let reading: Promise<string> | undefined;
    await using _body = await spool.spool(pieces(`{"text":"${'x'.repeat(40_000)}"}`, 500), never, (from) => {
      reading = text(Readable.from(from.pieces(stop.signal))).catch((error: unknown) => errorText(error));
    });
    stop.abort(new Error('the reader is gone'));
    assert.equal(await reading, 'the reader is gone');
  });

  it('tells nobody of what is not large', async () => {
    const spool = await createSpool({
      dir,
      memoryLimitBytes: 0,
      limitBytes: 10_000,
      pieceBytes: 100,
      largeBytes: 9000,
    });
    await using _body = await spool.spool(pieces(large), never, () => assert.fail('it is small'));
  });

  it('deletes leftovers of an earlier run at the start, and no other file', async () => {
    await mkdir(dir, { recursive: true });
    await writeFile(join(dir, `body-${'0'.repeat(32)}.json`), '{');
    await writeFile(join(dir, 'precious.json'), '{}');
    await createSpool({ dir, limitBytes: 10 });
    assert.deepEqual(await readdir(dir), ['precious.json']);
  });

  it('names the folder when it cannot be made or written', async () => {
    const file = join(root, 'a-file');
    await writeFile(file, '');
    await assert.rejects(createSpool({ dir: join(file, 'spool'), limitBytes: 10 }), {
      code: 'spool_unwritable',
      message: /a-file\/spool cannot be written: .*ENOTDIR/,
    });
    const spool = await createSpool({ dir, memoryLimitBytes: 0, limitBytes: 100 });
    await rm(dir, { recursive: true });
    await assert.rejects(spool.spool(pieces('{}'), never), { code: 'spool_unwritable', retryable: true });
  });
});
