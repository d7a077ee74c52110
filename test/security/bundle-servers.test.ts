import assert from 'node:assert/strict';
import { readdir, stat, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Secret } from '../../src/lib/observe/log.js';
import { checkArchive } from '../../src/server/policy/source/archive.js';
import { BundleServer } from '../../src/server/policy/source/bundle-api-http.js';
import { tar } from '../support/archive.js';
import { listening } from '../support/http-server.js';
import { tempDir } from '../support/temp-dir.js';

/** What an HTTP or S3 server of bundles does beside archives: where it sends us, and answers that do not end. */

const MIB = 1024 * 1024;
const LIMIT = MIB;
const TOKEN = 'Bearer the-token-of-the-bundles';

type Answering = (request: IncomingMessage, response: ServerResponse) => void;

/** Writes without end, for as long as somebody reads. */
function endless(response: ServerResponse, chunk: Buffer): void {
  const write = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once('drain', write);
  };
  write();
}

/** What a read of a bundle comes to, and what another origin was asked meanwhile. */
async function readFrom(answering: Answering, kind: 'header' | 's3' = 'header') {
  await using dir = await tempDir();
  const elsewhere: IncomingMessage['headers'][] = [];
  await using other = await listening(
    createServer((request, response) => {
      elsewhere.push(request.headers);
      response.end('mine');
    }),
  );
  const server = createServer((request, response) => {
    response.setHeader('x-other', other.url);
    answering(request, response);
  });
  await using own = await listening(server);
  const url = new URL(`${own.url}/bundle.tar.gz`);
  const auth =
    kind === 's3'
      ? { kind, accessKeyId: new Secret('AKIA'), secretAccessKey: new Secret('the-secret-key'), region: 'eu-west-1' }
      : { kind, value: new Secret(TOKEN) };
  const bundles = new BundleServer({
    location: { url, display: own.url, auth } as ConstructorParameters<typeof BundleServer>[0]['location'],
    ...{ limitBytes: LIMIT, timeoutMs: 1500, silenceTimeoutMs: 500, env: {} },
  });
  const file = join(dir.path, 'bundle');
  const before = process.memoryUsage.rss();
  const outcome = await bundles.get(undefined, file, new AbortController().signal).then(
    (answer) => answer.outcome,
    (error: unknown) => String((error as Error).message),
  );
  const grownMib = (process.memoryUsage.rss() - before) / MIB;
  assert(grownMib < 100, `${Math.round(grownMib)} MiB`);
  const sizes = await Promise.all(
    (await readdir(dir.path)).map(async (name) => (await stat(join(dir.path, name))).size),
  );
  assert(sizes.every((size) => size <= 2 * LIMIT));
  assert.doesNotMatch(outcome, /the-token|the-secret-key/);
  server.closeAllConnections();
  return { outcome, elsewhere };
}

test('a redirect to another origin, in any spelling, is not followed, and no credentials go there', async () => {
  const places: readonly ((other: string) => string)[] = [
    (other) => `${other}/bundle.tar.gz`,
    (other) => other.replace('http:', ''),
    (other) => other.replace('http:', 'HTTP:').replace('127.0.0.1', '0x7f.1'),
    (other) => other.replace('http://', 'http://user:password@'),
    (other) => other.replace('http:', 'https:'),
    (other) => other.replace('http:', 'ftp:'),
    () => 'file:///etc/passwd',
    () => 'data:application/gzip,x',
    () => 'http://[::ffff:7f00:1]:1/',
  ];
  for (const kind of ['header', 's3'] as const) {
    for (const place of places) {
      let to = '';
      const { outcome, elsewhere } = await readFrom((_, response) => {
        to = place(String(response.getHeader('x-other')));
        response.writeHead(302, { location: to }).end();
      }, kind);
      assert.match(outcome, /only redirects within the origin are followed|only http and https are read/, to);
      assert.deepEqual(elsewhere, [], to);
    }
  }
});

test('a circle of redirects, and redirects to nowhere, end', async () => {
  let asked = 0;
  const circle = await readFrom((_, response) => {
    asked++;
    response.writeHead(307, { location: `/bundle.tar.gz?${asked}` }).end();
  });
  assert.match(circle.outcome, /more than 5 redirects/);
  assert.equal(asked, 6);
  for (const location of ['', 'http://', 'http://[', '\u00ff'.repeat(8000)]) {
    const { outcome } = await readFrom((_, response) => response.writeHead(301, { location }).end());
    assert.match(
      outcome,
      /without saying where|not a URL|404|431|redirects|Overflow|header|failed/i,
      location.slice(0, 20),
    );
    assert(outcome.length < 2000, `${outcome.length} characters`);
  }
});

test('answers that do not end, or stall, end at a limit', async () => {
  const chunk = Buffer.alloc(64 * 1024, 'x');
  const cases: Readonly<Record<string, readonly [Answering, RegExp]>> = {
    'a body without end': [(_, response) => endless(response.writeHead(200), chunk), /^too-large$/],
    'an error of S3 without end': [(_, response) => endless(response.writeHead(403), chunk), /answered 403/],
    'a body that stalls': [
      (_, response) => void response.writeHead(200).write('x'),
      /not read within|timeout|Timeout|no answer/i,
    ],
    'a byte at a time': [
      (_, response) => {
        response.writeHead(200);
        const timer = setInterval(() => response.write('x'), 50);
        response.on('close', () => clearInterval(timer));
      },
      /was not read within 1.5 s/,
    ],
    'interim answers without end': [
      ({ socket }) => {
        const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n'), 50);
        socket.on('close', () => clearInterval(timer));
      },
      /not read within|timeout/i,
    ],
    'headers without end': [
      ({ socket }) => {
        const write = (): void => {
          while (!socket.destroyed && socket.write(`x: ${'y'.repeat(60_000)}\r\n`));
          if (!socket.destroyed) socket.once('drain', write);
        };
        socket.write('HTTP/1.1 200 OK\r\n');
        write();
      },
      /header/i,
    ],
    'a region without end': [
      (_, response) => response.writeHead(400, { 'x-amz-bucket-region': 'r'.repeat(15_000) }).end(),
      /answered 400/,
    ],
  };
  for (const [what, [answering, says]] of Object.entries(cases)) {
    const { outcome } = await readFrom((request, response) => {
      request.socket.on('error', () => undefined);
      answering(request, response);
    }, 's3');
    assert.match(outcome, says, what);
    assert(outcome.length < 2000, `${what}: ${outcome.length} characters`);
  }
});

/** An archive that has, before a good file, an entry whose kind is this letter. */
async function archiveWith(kind: string, content: string | Buffer, header: (bytes: Buffer) => void = () => undefined) {
  const entry = (await tar([{ name: 'h', content }])).subarray(0, -1024);
  entry.write(kind, 156, 'latin1');
  header(entry);
  entry.fill(' ', 148, 156);
  const sum = entry.subarray(0, 512).reduce((all, byte) => all + byte, 0);
  entry.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  const files = ['m.rego', 'n.rego'].map((name) => ({ name, content: 'package m\n' }));
  return gzipSync(Buffer.concat([entry, await tar(files)]), { level: 1 });
}

function pax(name: string, value: string): string {
  const rest = ` ${name}=${value}\n`;
  const length = Buffer.byteLength(rest);
  const digits = String(length + String(length + 2).length).length;
  return `${length + digits}${rest}`;
}

test('headers of archives that name, size or link what follows, in every form, lead nowhere and take no memory', async () => {
  await using dir = await tempDir();
  const cases: Readonly<Record<string, readonly [archive: Promise<Buffer>, says: RegExp]>> = {
    'a name of 100 MiB': [archiveWith('x', pax('path', 'a/'.repeat(50 * MIB))), /refused: .*(max size|header)/i],
    'a name of 5 MiB as GNU writes it': [archiveWith('L', Buffer.alloc(5 * MIB, 'a')), /refused: .*(max size|header)/i],
    'a link of 5 MiB as GNU writes it': [archiveWith('K', Buffer.alloc(5 * MIB, 'a')), /refused: .*(max size|header)/i],
    'a name that leads out': [archiveWith('x', pax('path', 'a/../../../etc/cron.d/x')), /leads out of the archive/],
    'a name from the root among others': [archiveWith('x', pax('path', '/etc/passwd')), /among absolute ones/],
    'a name that leads out, as GNU writes it': [archiveWith('L', 'a/../../x\0'), /leads out of the archive/],
    'a name into the repository': [archiveWith('x', pax('path', '.git/hooks/update')), /is in a \.git folder/],
    'another size': [archiveWith('x', pax('size', '4096')), /has a size that cannot be|invalid/i],
    'a size below zero': [archiveWith('x', pax('size', '-1')), /invalid|size/i],
    'a size of 2^70 in binary': [
      archiveWith('0', 'x', (bytes) => {
        bytes.fill(0x7f, 124, 136);
        bytes[124] = 0x80;
      }),
      /invalid size/,
    ],
    'a sparse file as GNU writes it': [archiveWith('S', 'x'), /special entry|only files and folders/],
    'a folder with content': [archiveWith('5', 'x'), /has a size that cannot be|invalid/i],
    'a link': [archiveWith('2', ''), /is a symlink/],
    'a volume header': [archiveWith('V', ''), /only files and folders/],
  };
  for (const [what, [archive, says]] of Object.entries(cases)) {
    const file = join(dir.path, 'bundle.tar.gz');
    await writeFile(file, await archive);
    const before = process.memoryUsage.rss();
    const limits = { unpackedBytes: 512 * MIB, entries: 20 };
    const error = await checkArchive(file, limits, AbortSignal.timeout(10_000)).then(
      () => 'taken',
      (refusal: unknown) => String((refusal as Error).message),
    );
    const grownMib = (process.memoryUsage.rss() - before) / MIB;
    assert.match(error, says, what);
    assert(error.length < 2000, `${what}: ${error.length} characters`);
    assert(grownMib < 150, `${what}: ${Math.round(grownMib)} MiB`);
  }
});
