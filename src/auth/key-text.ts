import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { KeyProblem, readPem } from '../lib/net/pem-text.js';
import { expandHome, homeFolder } from '../lib/settings/home-path.js';
import { isSshLine } from './ssh-line.js';

/** No key is larger; keeps a wrong path from being read into memory. */
const MAX_KEY_BYTES = 64 * 1024;
/** First byte of every key in DER: a SEQUENCE. */
const DER_START = 0x30;

/** A key as it was given: text (PEM or an SSH line, newlines restored) or DER. */
export type KeyMaterial = { readonly text: string } | { readonly der: Buffer };

/**
 * Reads the value of a key setting (opal-protocol P3.1): the text of a key, repaired where it is
 * PEM (an SSH line may have underscores, in its comment), or the path of a file, `~/` being the
 * home folder; also DER as base64. The form is detected; the format setting is ignored. Throws a
 * {@link KeyProblem} that never shows the value, since it may be a private key.
 */
export async function readKeyMaterial(value: string, home = homeFolder()): Promise<KeyMaterial> {
  const text = value.trim();
  const given = textOf(text);
  if (given !== undefined) return { text: given };
  const bytes = (await readKeyFile(text, home)) ?? derOfBase64(text);
  if (bytes === undefined) throw new KeyProblem('is neither the text of a key nor the path of a file that exists');
  if (bytes[0] === DER_START) return { der: bytes };
  const content = bytes.toString('utf8').trim();
  return { text: textOf(content) ?? content };
}

/** The text of a key; undefined: it is none. */
function textOf(text: string): string | undefined {
  return isSshLine(text) ? text : readPem(text)?.text;
}

/**
 * Reads the file that a key setting names; undefined: there is none. Throws a {@link KeyProblem}
 * that never shows the path, which may be a key.
 */
export async function readKeyFile(path: string, home = homeFolder()): Promise<Buffer | undefined> {
  const file = resolve(expandHome(path, home));
  let size: number;
  try {
    const found = await stat(file);
    if (!found.isFile()) throw new KeyProblem('is the path of something that is not a file');
    size = found.size;
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    // Missing, or not even a path: it may still be a text.
    const isNoPath = code === 'ERR_INVALID_ARG_VALUE'; // it has a zero byte
    if (isNoPath || code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG') return undefined;
    if (cause instanceof KeyProblem) throw cause;
    throw new KeyProblem(`names a file that cannot be read (${code})`);
  }
  if (size > MAX_KEY_BYTES) throw new KeyProblem('names a file that is too large for a key');
  try {
    return await readFile(file);
  } catch (cause) {
    throw new KeyProblem(`names a file that cannot be read (${(cause as NodeJS.ErrnoException).code})`);
  }
}

function derOfBase64(text: string): Buffer | undefined {
  if (!/^[A-Za-z0-9+/\s]{40,}={0,2}$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes[0] === DER_START ? bytes : undefined;
}
