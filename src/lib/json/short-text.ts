/**
 * A text of at most `length` characters, with `…` where it was cut. The part is copied: a slice
 * would keep the whole text in memory.
 */
export function shortText(text: string, length: number): string {
  return text.length <= length ? text : `${Buffer.from(text.slice(0, length - 1)).toString()}…`;
}
