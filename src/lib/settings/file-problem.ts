import { errorText } from '../errors.js';

const READING: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  ENOTDIR: 'it does not exist',
  EACCES: 'this user may not read it',
  EPERM: 'this user may not read it',
  EISDIR: 'it is a folder',
};
const WRITING: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'a part of its path is no folder',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
  EEXIST: 'something else is there',
  EISDIR: 'it is a folder',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota of this user is used up',
};

/** Failures of a disk that takes more when there is room, or when it works again. */
const PASSING: ReadonlySet<string> = new Set([
  'ENOSPC',
  'EDQUOT',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'EINTR',
  'EBUSY',
]);

/** Whether a file or folder may be used later without anybody changing settings or rights. */
export function isPassing(error: unknown): boolean {
  return PASSING.has(codeOf(error));
}

/**
 * Why a file or folder cannot be read, in words; of a rare reason those of the operating system.
 */
export function whyUnreadable(error: unknown): string {
  return READING[codeOf(error)] ?? errorText(error);
}

/** Why a file or folder cannot be written or made. */
export function whyUnwritable(error: unknown): string {
  return WRITING[codeOf(error)] ?? errorText(error);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
