import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { brotliDecompress, gzip as compress, constants, type ZlibOptions } from 'node:zlib';

/** One file of the live page, in each encoding that it is sent in. */
export interface UiFile {
  readonly type: string;
  /** Of the content; each encoding has its own `ETag`. */
  readonly hash: string;
  readonly identity: Buffer;
  readonly br: Buffer;
  readonly gzip: Buffer;
}

/** The files of the live page by their path below `/ui/`. */
export type UiFiles = ReadonlyMap<string, UiFile>;

/** Where the build puts them (scripts/lib/ui.mjs), each as a file with this ending. */
const FOLDER = new URL('../ui/', import.meta.url);
const END = '.br';
const decompressed = promisify(brotliDecompress);
const gzipped = promisify<Buffer, ZlibOptions, Buffer>(compress);
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/**
 * Reads all files of the built page; undefined if it was not built. Requests never name a file of
 * the disk: they look into this map.
 */
export async function readUiFiles(folder = FOLDER): Promise<UiFiles | undefined> {
  let names: string[];
  try {
    names = await readdir(folder, { recursive: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const found = names
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith(END))
    .map((name) => name.slice(0, -END.length))
    .filter((name) => Object.hasOwn(TYPES, extname(name)));
  const files = new Map(
    await Promise.all(
      found.map(
        async (name) => [name, await readUiFile(await readFile(new URL(`${name}${END}`, folder)), name)] as const,
      ),
    ),
  );
  return files.has('index.html') ? files : undefined;
}

async function readUiFile(br: Buffer, name: string): Promise<UiFile> {
  const identity = await decompressed(br);
  const gzip = await gzipped(identity, { level: constants.Z_BEST_COMPRESSION });
  const hash = createHash('sha256').update(identity).digest('base64url').slice(0, 22);
  return { type: TYPES[extname(name)] ?? '', hash, identity, br, gzip };
}

/** An encoding of a file, as `Content-Encoding` names it; identity: none. */
export type Encoding = 'br' | 'gzip' | 'identity';

/** The best encoding that an `Accept-Encoding` header takes. */
export function encodingFor(accept: string | undefined): Encoding {
  const taken = new Set(
    (accept ?? '')
      .toLowerCase()
      .split(',')
      .map((item) => item.split(';').map((part) => part.trim()))
      .filter(([, quality = '']) => !/^q=0(?:\.0*)?$/.test(quality))
      .map(([name]) => name),
  );
  return (['br', 'gzip'] as const).find((name) => taken.has(name)) ?? 'identity';
}

/** Whether an `If-None-Match` header has the tag: the reader holds the content already. */
export function holdsTag(header: string | undefined, tag: string): boolean {
  const held = (header ?? '').split(',').map((item) => item.trim().replace(/^W\//, ''));
  return held.includes(tag) || held.includes('*');
}
