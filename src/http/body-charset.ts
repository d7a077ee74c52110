import { SyncError } from '../lib/errors.js';
import { charsetOf, decoderOf, isUtf8, type TextReader } from '../lib/json/charset.js';

/** Longest name of a charset in a message. */
const SHOWN_CHARACTERS = 40;

/**
 * A body in UTF-8: as it is, unless its content type names another charset. Throws
 * `request_invalid`: 415 for an unknown charset, 422 for bytes that are invalid in it.
 */
export function asUtf8(contentType: string | undefined, body: Buffer): Buffer {
  const charset = charsetOf(contentType).toLowerCase();
  if (isUtf8(charset)) return body; // whoever reads it checks the bytes
  const shown = JSON.stringify(charset.slice(0, SHOWN_CHARACTERS));
  let decoder: TextReader;
  try {
    decoder = decoderOf(charset, body);
  } catch (cause) {
    throw new SyncError('request_invalid', `the charset ${shown} of the body is not known: send UTF-8`, {
      status: 415,
      cause,
    });
  }
  try {
    return Buffer.from(decoder.decode(body));
  } catch (cause) {
    throw new SyncError('request_invalid', `the body is not ${shown}, which its content type names`, { cause });
  }
}
