import { isUtf8 } from 'node:buffer';

const LINE_FEED = 0x0a;

/** The line of a byte, 1 for the first. */
export function lineAt(bytes: Uint8Array, offset: number): number {
  let line = 1;
  for (let at = bytes.indexOf(LINE_FEED); at >= 0 && at < offset; at = bytes.indexOf(LINE_FEED, at + 1)) line++;
  return line;
}

/** The first line that is not UTF-8, 1 for the first; undefined: all are. */
export function lineNotUtf8(bytes: Uint8Array): number | undefined {
  if (isUtf8(bytes)) return undefined;
  let line = 1;
  for (let start = 0; ; line++) {
    const end = bytes.indexOf(LINE_FEED, start);
    if (end < 0 || !isUtf8(bytes.subarray(start, end))) return line;
    start = end + 1;
  }
}
