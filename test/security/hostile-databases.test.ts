import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { createPostgresProvider } from '../../src/client/fetch/postgres-provider.js';
import { failureOf, startFetcher, type TestFetcher, textOf } from '../support/fetcher.js';
import {
  columns,
  type DatabaseAnswers,
  done,
  int,
  message,
  row,
  startDatabase,
  withoutEnd,
} from '../support/hostile-database.js';

/**
 * Whoever publishes an entry names the database that it is read from, and what listens there may say anything in Postgres' protocol: no
 * message ends a client, has it wait for ever, or fills its memory.
 */

const MIB = 1024 * 1024;
const MOST_MIB = 400;
const WITHIN_MS = 15_000;

const says =
  (...messages: readonly Buffer[]) =>
  (socket: Socket): void =>
    void socket.write(Buffer.concat(messages));
const again = (chunk: Buffer, count = 10_000): Buffer => Buffer.alloc(chunk.length * count, chunk);
/** After what belongs before the rows. */
const floods = (chunk: Buffer, first = columns(['row', 'key'])) => ({
  fetch: (socket: Socket): void => {
    socket.write(first);
    withoutEnd(socket, chunk);
  },
});

const HARMS: Readonly<Record<string, DatabaseAnswers>> = {
  'an error whose text does not end': { begin: says(message('E', 'SFATAL')) },
  'an error without anything': { begin: says(message('E')) },
  'an error as an answer, without its end': { fetch: says(message('E', 'SERROR\0C42000\0Mx')) },
  'an error of 100 MB': { begin: says(message('E', `SFATAL\0C42000\0M${'x'.repeat(100 * MIB)}\0\0`)) },
  'a notice without its end': { begin: says(message('N', 'SNOTICE\0')) },
  'an authentication that is none': { begin: says(message('R', int(77, 4))) },
  'an authentication by GSS': { begin: says(message('R', int(7, 4))) },
  'an authentication of no length': { begin: says(message('R')) },
  'a number of rounds without end': {
    begin: (socket) => {
      socket.write(message('R', Buffer.concat([int(10, 4), Buffer.from('SCRAM-SHA-256\0\0')])));
      socket.once('data', (data) => {
        const nonce = /r=([^,\0]+)/.exec(data.toString('latin1'))?.[1];
        socket.write(message('R', Buffer.concat([int(11, 4), Buffer.from(`r=${nonce}x,s=c2FsdA==,i=2147483647`)])));
      });
    },
  },
  'a row of fewer fields than none': { fetch: says(columns(['row', 'key']), message('D', int(-1))) },
  'a row of more fields than it has': {
    fetch: says(columns(['row', 'key']), message('D', int(32_767)), done('FETCH 1')),
  },
  'a field that is longer than its row': {
    fetch: says(columns(['row', 'key']), message('D', Buffer.concat([int(2), int(2 ** 31 - 1, 4)])), done('FETCH 1')),
  },
  'a field of fewer bytes than none': {
    fetch: says(columns(['row', 'key']), message('D', Buffer.concat([int(2), int(-9, 4), int(-9, 4)])), done('FETCH')),
  },
  'columns that are not there': { fetch: says(message('T', int(30_000))) },
  'a message that is shorter than its own head': { fetch: says(message('D', '', 0)) },
  'a message of four gigabytes': {
    fetch: (socket) => withoutEnd(socket, message('D', Buffer.alloc(MIB), 2 ** 32 - 1)),
  },
  'a message of a kind that is none': { fetch: says(message('?', 'x')) },
  'a copy in place of rows': { fetch: says(message('H', Buffer.from([0, 0x7f, 0xff]))) },
  'rows that nobody asked for': { begin: says(row('1', null), columns(['row', 'key'])) },
  'rows of nothing, without end': floods(again(row())),
  'rows of a byte, without end': floods(again(row('1', null))),
  'rows of 30,000 fields': floods(row(...Array.from({ length: 30_000 }, () => null)), columns(Array(30_000).fill('x'))),
  'ends of statements without end': floods(again(Buffer.concat([columns(['row', 'key']), message('C', 'FETCH 1\0')]))),
  'notices without end': floods(again(message('N', 'SNOTICE\0Mx\0\0'))),
  'a row of lists without end, as JSON': {
    fetch: says(columns(['row', 'key'], 114), row(`[${'[],'.repeat(20 * MIB)}0]`, null), done('FETCH 1')),
  },
};

describe('a database that an entry names', () => {
  let fetcher: TestFetcher;
  before(async () => {
    const provider = createPostgresProvider({ connectTimeoutMs: 5000, statementTimeoutMs: 5000 });
    fetcher = await startFetcher(provider, { limitBytes: 50 * MIB, totalTimeoutMs: 10_000 });
  });
  after(() => fetcher[Symbol.asyncDispose]());

  const config = { fetcher: 'postgres', query: 'select 1' };

  it('that says what belongs there is read', async () => {
    await using database = await startDatabase({});
    assert.equal(await textOf(fetcher, { url: database.url, config }), '[{"a":1}]');
  });

  for (const [what, answers] of Object.entries(HARMS)) {
    it(`with ${what}: the read fails, and nothing else`, async () => {
      await using database = await startDatabase(answers);
      const [before, startedMs] = [process.memoryUsage.rss(), performance.now()];
      let peak = before;
      const watch = setInterval(() => {
        peak = Math.max(peak, process.memoryUsage.rss());
      }, 10);
      const error = await failureOf(textOf(fetcher, { url: database.url, config })).finally(() => clearInterval(watch));
      assert(performance.now() - startedMs < WITHIN_MS, `${Math.round(performance.now() - startedMs)} ms`);
      assert(error.message.length < 2000, `${error.message.length} characters`);
      const grownMib = (Math.max(peak, process.memoryUsage.rss()) - before) / MIB;
      assert(grownMib < MOST_MIB, `${Math.round(grownMib)} MiB`);
    });
  }
});
