import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createSpool, type Spool } from '../../src/client/fetch/spool.js';
import { disposeDocuments, readBackup } from '../../src/client/offline/backup-reader.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { patience } from '../support/until.js';

/** What whoever may write into the folder of a backup puts in its place: none of it holds up a start, fills memory, or leaves the spool. */

const MIB = 1024 * 1024;
const WITHIN_MS = 5000;
const HEADER = {
  ...{ id: 'b', created: '2026-11-26T00:00:00.000Z', directories: ['.'], scope: 'default', policy_size: 4 },
  position: { epoch: 'e', era: 1, next: 1, last_seq: 1, seen: [] },
  documents: [] as unknown[],
};
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const DOCUMENT = {
  ...{ id: 'd', path: ['a'], rank: [1, 1, 0], kind: 'put', size: 1, hash: sha256('1'), blocked: null },
  entry: { origin: 'update', epoch: 'e', save_method: 'PUT', topics: ['t'], fetched: null },
};

/** A file in our form with a checksum that fits: whoever writes one can make it. */
function backup(header: object, documents: readonly string[], policy = 'null'): string {
  const head = { ...HEADER, policy_size: Buffer.byteLength(policy), ...header };
  const text = `{"format":"policysync-backup","version":1,"header":${JSON.stringify(head)},\n"policy":${policy},\n"documents":[\n${documents.join(',\n')}\n],\n`;
  return `${text}"checksum":"${sha256(text)}"}\n`;
}
const withDocument = (more: object, text = '1'): string =>
  backup({ documents: [{ ...DOCUMENT, size: Buffer.byteLength(text), hash: sha256(text), ...more }] }, [text]);

describe('a backup that somebody else wrote', () => {
  let dir: TempDir;
  let spool: Spool;
  before(async () => {
    dir = await tempDir();
    spool = await createSpool({ dir: join(dir.path, 'spool'), limitBytes: 64 * MIB });
  });
  after(() => dir[Symbol.asyncDispose]());

  /** What comes of a file: its documents by path, or why it is not used. */
  async function readOf(path: string): Promise<string> {
    const withinMs = WITHIN_MS * patience();
    const signal = AbortSignal.timeout(withinMs);
    const reading = readBackup(path, spool, signal).then(
      async (content) => {
        await disposeDocuments(content?.documents ?? []);
        return `read ${(content?.documents ?? []).map(({ layer }) => layer.path.join('/'))}`;
      },
      (error: unknown) => String((error as Error).message),
    );
    const late = new Promise<string>((resolve) => setTimeout(() => resolve('HELD UP'), withinMs).unref());
    return await Promise.race([reading, late]);
  }

  async function attacked(what: string, path: string, says: RegExp): Promise<void> {
    const memory = process.memoryUsage.rss();
    assert.match(await readOf(path), says, what);
    const grownMib = (process.memoryUsage.rss() - memory) / MIB;
    assert(grownMib < 300, `${what}: ${Math.round(grownMib)} MiB`);
    assert.deepEqual(await readdir(join(dir.path, 'spool')), [], `${what}: the spool`);
  }

  test('the good file that the others are made from is read', async () => {
    const path = join(dir.path, 'good.json');
    await writeFile(path, withDocument({}));
    assert.equal(await readOf(path), 'read a');
  });

  test('what is no file is refused at once: a pipe, a device, a folder, a socket, a link to one, a link in a circle', {
    skip: process.platform === 'win32',
  }, async () => {
    const at = (name: string): string => join(dir.path, name);
    execFileSync('mkfifo', [at('pipe')]);
    await mkdir(at('folder'));
    await symlink('/dev/zero', at('zero'));
    await symlink('/dev/tty', at('terminal'));
    await symlink(at('pipe'), at('link'));
    await symlink(at('circle'), at('circle'));
    for (const name of ['pipe', 'zero', 'terminal', 'link', 'folder']) {
      await attacked(
        name,
        at(name),
        /^the backup cannot be used: it is no file|^the backup cannot be used: it cannot be opened/,
      );
    }
    await attacked('circle', at('circle'), /it cannot be opened \(ELOOP\)/);
  });

  test('files that are changed, cut, deep, long or of other types are refused by what is wrong', async () => {
    const path = join(dir.path, 'forged.json');
    const good = withDocument({});
    const cases: Readonly<Record<string, readonly [text: string, says: RegExp]>> = {
      'another document': [good.replace('\n1\n', '\n2\n'), /is not the one that was saved/],
      'another name of a document': [good.replace('"path":["a"]', '"path":["b"]'), /checksum/],
      'cut short': [good.slice(0, -30), /checksum|cut short/],
      'more behind it': [`${good}x`, /something comes after its end/],
      'a header that does not end': [good.replaceAll('\n', ' '), /cut short/],
      'nested without end': [
        backup({ note: 0 }, []).replace('"note":0', `"note":${'['.repeat(MIB)}`),
        /deep|depth|nested/,
      ],
      'a size beyond the file': [withDocument({ size: Number.MAX_SAFE_INTEGER }), /cut short|too large|limit/],
      'a policy beyond the file': [backup({ policy_size: Number.MAX_SAFE_INTEGER }, []), /cut short|longer/],
      'a size below zero': [withDocument({ size: -1 }), /not as documented at header|not as documented at documents/],
      'a place that is no number': [withDocument({ rank: [1e300, 0, 0] }), /not as documented at/],
      'members that are not ours': [backup({ __proto__: 1, constructor: 1 }, []), /not as documented at/],
      'many values': [
        backup({ directories: [] }, []).replace('"directories":[]', `"directories":[${'0,'.repeat(10_000_001)}0]`),
        /values/,
      ],
      'a patch that is none': [withDocument({ kind: 'patch', hash: null }, '[{"op":"run"}]'), /cannot be used/],
      'a patch nested without end': [
        withDocument({ kind: 'patch', hash: null }, `${'['.repeat(MIB)}`),
        /cannot be used/,
      ],
      "OPAL's form nested without end": [`{"policies":${'{"a":'.repeat(MIB)}`, /it is not JSON/],
      "OPAL's form without policies": [
        '{"data":{"a":1}}',
        /neither a backup of this program nor one of an OPAL client/,
      ],
      "OPAL's form with numbers for modules": ['{"policies":{"a":1},"data":{}}', /neither a backup/],
      nothing: ['', /it is not JSON/],
    };
    for (const [what, [text, says]] of Object.entries(cases)) {
      await writeFile(path, text);
      await attacked(what, path, says);
    }
  });

  test('a file of a hundred gigabytes of nothing is not read', { skip: process.platform !== 'linux' }, async () => {
    const path = join(dir.path, 'sparse.json');
    await writeFile(path, '{"policies":{}');
    await truncate(path, 100 * 1024 * MIB);
    await attacked('in another form', path, /bytes in another form/);
    await writeFile(path, '{"format":"policysync-backup","version":1,"header":{"a":"');
    await truncate(path, 100 * 1024 * MIB);
    await attacked('in our form', path, /a line is longer/);
    await rm(path);
  });

  test("a backup in OPAL's form has no document where the engine is told who may write", async () => {
    const path = join(dir.path, 'authz.json');
    await writeFile(
      path,
      '{"policies":{"a":"package a"},"data":{"system":{"authz":{"allow":true}},"__proto__":{"b":1}}}',
    );
    assert.equal(await readOf(path), 'read __proto__');
  });
});
