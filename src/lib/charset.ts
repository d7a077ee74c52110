/** The charset that a content type names. Default: UTF-8. */
export function charsetOf(contentType: string | undefined): string {
  return /;\s*charset=("?)([^";\s]+)\1/i.exec(contentType ?? '')?.[2] ?? 'utf-8';
}

/** Whether bytes of this charset are UTF-8. */
export function isUtf8(charset: string): boolean {
  return /^(?:utf-?8|us-ascii)$/i.test(charset);
}

/**
 * A strict decoder for a text of this charset that starts so. UTF-16 says with its first character which of its two bytes comes first;
 * without one it is the lower. Throws a `RangeError` for an unknown charset.
 */
export function decoderOf(charset: string, start: Uint8Array): InstanceType<typeof TextDecoder> {
  const isBigEndian = start[0] === 0xfe && start[1] === 0xff && /^utf-16$/i.test(charset);
  return new TextDecoder(isBigEndian ? 'utf-16be' : charset, { fatal: true });
}
