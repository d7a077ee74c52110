/** The charset that a content type names. Default: UTF-8. */
export function charsetOf(contentType: string | undefined): string {
  return /;\s*charset=("?)([^";\s]+)\1/i.exec(contentType ?? '')?.[2] ?? 'utf-8';
}

/** Whether bytes of this charset are UTF-8. */
export function isUtf8(charset: string): boolean {
  return /^(?:utf-?8|us-ascii)$/i.test(charset);
}

/** Decodes a text, whole or piece by piece. */
export type TextReader = Pick<InstanceType<typeof TextDecoder>, 'decode'>;

/**
 * A strict decoder for a text of this charset that starts so. UTF-16 says with its first character
 * which of its two bytes comes first; without one it is the lower. Throws a `RangeError` for an
 * unknown charset.
 */
export function decoderOf(charset: string, start: Uint8Array): TextReader {
  const isBigEndian = start[0] === 0xfe && start[1] === 0xff && /^utf-16$/i.test(charset);
  const decoder = new TextDecoder(isBigEndian ? 'utf-16be' : charset, { fatal: true });
  if (decoder.encoding !== 'windows-1252') return decoder;
  return { decode: (...given) => decoder.decode(...given).replace(/[\x80-\x9f]/g, ofWindows1252) };
}

/**
 * From 0x80 on (WHATWG Encoding, index windows-1252); Node 20 reads them as ISO 8859-1. A blank:
 * the byte is that control character.
 */
const WINDOWS_1252 = '€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ';

function ofWindows1252(control: string): string {
  const character = WINDOWS_1252.charAt(control.charCodeAt(0) - 0x80);
  return character === ' ' ? control : character;
}
