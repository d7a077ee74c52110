import { SyncError } from '../../lib/errors.js';
import type { FetchSource } from './provider.js';

/** The charset that a content type names; UTF-8 where it names none. */
export function charsetOf(contentType: string | undefined): string {
  return /;\s*charset=("?)([^";\s]+)\1/i.exec(contentType ?? '')?.[2] ?? 'utf-8';
}

/**
 * A text of any length as one JSON string (`is_json: false`, opal-protocol P4.8), piece by piece. Throws `fetch_not_json`
 * for bytes that are not of the charset, and for a charset that is not known.
 */
export async function* jsonStringOf(bytes: FetchSource, charset: string): AsyncGenerator<Uint8Array> {
  const decoder = decoderOf(charset);
  yield Buffer.from('"');
  for await (const chunk of bytes) yield escaped(() => decoder.decode(chunk, { stream: true }), charset);
  yield escaped(() => decoder.decode(), charset);
  yield Buffer.from('"');
}

function decoderOf(charset: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset, { fatal: true });
  } catch (cause) {
    throw new SyncError('fetch_not_json', `the charset ${JSON.stringify(charset)} is not known`, { cause });
  }
}

function escaped(decode: () => string, charset: string): Buffer {
  try {
    return Buffer.from(JSON.stringify(decode()).slice(1, -1));
  } catch (cause) {
    throw new SyncError('fetch_not_json', `the text is not valid ${charset}`, { cause });
  }
}
