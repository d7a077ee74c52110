import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { whyUnreadable } from './file-problem.js';

/** No secret is longer; keeps a wrong path from being read into memory. */
const MAX_SECRET_BYTES = 64 * 1024;
/** The right of every user of the machine to read a file. */
const READ_BY_ALL = 0o004;

/** A bounded text file. */
export interface BoundedText {
  readonly text: string;
  /** Its mode if every user of the machine may read it. */
  readonly openMode: number | undefined;
}

/**
 * Reads a secret from a file, or a pipe: at most 64 KiB, without one newline at its end. The
 * message of what it throws says what is wrong; it shows only a path where there is something,
 * since the secret itself may have been given in its place.
 */
export function readSecretFile(path: string): BoundedText {
  if (!existsSync(path))
    throw new Error('the file does not exist (its path is not shown: it may be the secret itself)');
  const { text: whole, openMode } = readBoundedText(path, MAX_SECRET_BYTES);
  const text = whole.replace(/\r?\n$/, '');
  if (text.trim() === '') throw new Error(`the file ${path} is empty: it must contain the secret`);
  return { text, openMode };
}

/**
 * Reads a whole text file of at most `maxBytes`. The message of what it throws says what is wrong.
 */
export function readBoundedText(path: string, maxBytes: number): BoundedText {
  const buffer = Buffer.alloc(maxBytes + 1);
  let length = 0;
  let mode: number;
  try {
    const file = openSync(path, 'r');
    try {
      mode = fstatSync(file).mode;
      for (let count = -1; count !== 0 && length < buffer.length; length += count) {
        count = readSync(file, buffer, length, buffer.length - length, null);
      }
    } finally {
      closeSync(file);
    }
  } catch (error) {
    // Without the cause, which says the same in the words of the operating system.
    throw new Error(`the file ${path} cannot be read: ${whyUnreadable(error)}`);
  }
  if (length > maxBytes) throw new Error(`the file ${path} is larger than ${maxBytes} bytes`);
  const hasModes = process.platform !== 'win32';
  return {
    text: utf8(path, buffer.subarray(0, length)),
    openMode: hasModes && (mode & READ_BY_ALL) !== 0 ? mode & 0o777 : undefined,
  };
}

function utf8(path: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`the file ${path} is not UTF-8 text`);
  }
}
