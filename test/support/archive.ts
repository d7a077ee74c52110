import { once } from 'node:events';
import { gzipSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';

/** One entry of a crafted archive; a file with a text where nothing else is said. */
export type CraftedEntry = { name: string; content?: string | Uint8Array } & Partial<
  Pick<Header, 'type' | 'linkname' | 'mode'>
> & { pax?: Record<string, string> };

/** A tar archive with these entries, in memory: nothing stops a name that leads anywhere. */
export async function tar(entries: readonly CraftedEntry[]): Promise<Buffer> {
  const archive = pack();
  const chunks: Uint8Array[] = [];
  archive.on('data', (chunk) => chunks.push(chunk as Uint8Array));
  for (const { content, ...header } of entries) {
    archive.entry(header, content === undefined ? '' : Buffer.from(content));
  }
  archive.finalize();
  await once(archive, 'end');
  return Buffer.concat(chunks);
}

/** {@link tar}, compressed. */
export async function tarGz(entries: readonly CraftedEntry[]): Promise<Buffer> {
  return gzipSync(await tar(entries));
}

/** The archive of a folder's files. */
export function bundleOf(files: Readonly<Record<string, string>>): Promise<Buffer> {
  return tarGz(Object.entries(files).map(([name, content]) => ({ name, content })));
}

const GOOD = { name: 'm.rego', content: 'package ok\n' };

/** A bad archive, and what its refusal says. */
export interface BadArchive {
  bytes: () => Promise<Buffer>;
  says: RegExp;
}

function bad(entry: CraftedEntry, says: RegExp): BadArchive {
  return { bytes: () => tarGz([GOOD, entry]), says };
}

/** Archives that must change nothing, with limits of 1 MiB unpacked and 20 entries. */
export const BAD_ARCHIVES: Readonly<Record<string, BadArchive>> = {
  'that is truncated': {
    bytes: async () =>
      (await tarGz([GOOD, { name: 'big.rego', content: `package b\n${'#'.repeat(9_000)}` }])).subarray(0, -20),
    says: /unexpected end of file/,
  },
  'whose tar is cut between two entries': {
    bytes: async () => gzipSync((await tar([GOOD, GOOD])).subarray(0, 1024)),
    says: /no end mark.*after "m\.rego"/,
  },
  'whose tar is cut within an entry': {
    bytes: async () => gzipSync((await tar([GOOD, { name: 'cut.rego', content: '#'.repeat(900) }])).subarray(0, 1700)),
    says: /refused.*"cut\.rego"/,
  },
  'that is not gzip': { bytes: async () => Buffer.from('<html>not found</html>'), says: /incorrect header check/ },
  'that is gzip of something else': {
    bytes: async () => gzipSync('x'.repeat(2_000)),
    says: /nvalid (tar header|size)/,
  },
  'with nothing in it': { bytes: () => tarGz([]), says: /no files/ },
  'with folders alone': { bytes: () => tarGz([{ name: 'a/', type: 'directory' }]), says: /no files/ },
  'with data behind the compressed part': {
    bytes: async () => Buffer.concat([await tarGz([GOOD]), Buffer.from('trailing')]),
    says: /incorrect header check/,
  },
  'with zeros behind the compressed part': {
    bytes: async () => Buffer.concat([await tarGz([GOOD]), Buffer.alloc(100_000)]),
    says: /data after the end of the compressed archive/,
  },
  'with data behind its end mark': {
    bytes: async () =>
      gzipSync(Buffer.concat([await tar([GOOD]), await tar([{ name: 'more.rego', content: 'package x' }])])),
    says: /data after its end mark/,
  },
  'with a path that leads out': bad(
    { name: 'a/../../evil.rego', content: 'x' },
    /"a\/\.\.\/\.\.\/evil\.rego" leads out/,
  ),
  'with an absolute path': bad(
    { name: '/etc/cron.d/evil', content: 'x' },
    /"\/etc\/cron\.d\/evil" is an absolute path/,
  ),
  'with a symbolic link': bad(
    { name: 'link.rego', type: 'symlink', linkname: '/etc/passwd' },
    /"link\.rego" is a symlink/,
  ),
  'with a hard link': bad({ name: 'hard.rego', type: 'link', linkname: 'm.rego' }, /"hard\.rego" is a link/),
  'with a device': bad({ name: 'dev/sda', type: 'block-device' }, /"dev\/sda" is a block-device/),
  'with a character device': bad({ name: 'dev/tty', type: 'character-device' }, /"dev\/tty" is a character-device/),
  'with a FIFO': bad({ name: 'pipe', type: 'fifo' }, /"pipe" is a fifo/),
  'with a git hook': bad(
    { name: '.git/hooks/post-checkout', content: 'x' },
    /"\.git\/hooks\/post-checkout" is in a \.git/,
  ),
  'with a git folder further down, in other letters': bad(
    { name: 'a/.GiT/config', content: 'x' },
    /"a\/\.GiT\/config" is in/,
  ),
  'with a path that is file and folder': bad(
    { name: 'm.rego/x.rego', content: 'x' },
    /"m\.rego" is both a file and a folder/,
  ),
  'with a folder where a file is': bad({ name: 'm.rego/', type: 'directory' }, /"m\.rego" is both a file and a folder/),
  'with a backslash in a name': bad({ name: 'a\\..\\x.rego', content: 'x' }, /has a backslash/),
  'with a line break in a name': bad({ name: 'a\nb.rego', content: 'x' }, /"a\\nb\.rego" has a control character/),
  'with a NUL in a name': bad(
    { name: 'x', content: 'x', pax: { path: 'a\0b.rego' } },
    /"a\\u0000b\.rego" has a control/,
  ),
  'with a name that is not UTF-8': {
    bytes: async () => {
      const bytes = await tar([GOOD, { name: 'a?.rego', content: 'x' }]);
      const at = bytes.indexOf('a?.rego');
      const sum = Number.parseInt(bytes.toString('latin1', at + 148, at + 154), 8) + 0xff - '?'.charCodeAt(0);
      bytes[at + 1] = 0xff;
      bytes.write(sum.toString(8).padStart(6, '0'), at + 148, 'latin1');
      return gzipSync(bytes);
    },
    says: /is not UTF-8|not UTF-8/,
  },
  'with a sparse file': bad({ name: 's', content: 'x', pax: { 'GNU.sparse.major': '1' } }, /"s" is a sparse file/),
  'with a damaged header': {
    bytes: async () => {
      const bytes = await tar([GOOD, { name: 'broken.rego', content: 'x' }]);
      bytes.write('X', bytes.indexOf('broken.rego'), 'latin1');
      return gzipSync(bytes);
    },
    says: /nvalid tar header.*after "m\.rego"/,
  },
  'with too many entries': {
    bytes: () => tarGz(Array.from({ length: 30 }, (_, index) => ({ name: `f${index}.rego`, content: 'package f' }))),
    says: /"f20\.rego" is beyond the 20/,
  },
  'with too many folders in its names': {
    bytes: () => tarGz([{ name: `${Array.from({ length: 30 }, (_, index) => `d${index}`).join('/')}/m.rego` }]),
    says: /beyond the 20 files and folders/,
  },
  'that is a bomb': {
    bytes: () => tarGz([GOOD, { name: 'bomb.rego', content: Buffer.alloc(8 * 1024 * 1024) }]),
    says: /unpacks to more than the 1048576 bytes/,
  },
};

/** The limits that {@link BAD_ARCHIVES} are over. */
export const TEST_LIMITS = { unpackedBytes: 1024 * 1024, entries: 20 };
