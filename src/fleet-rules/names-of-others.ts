/**
 * What clients, publishers, commits and newer servers have named: looked up, put into an address,
 * and shown, whatever it is.
 */

/**
 * The member of a table or of labels that has this name; `constructor` has none, unless it was put
 * there.
 */
export function own<T>(members: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

/**
 * One segment of an address. Half of a character is U+FFFD there, as in all that a browser sends.
 */
export function segmentOf(name: string): string {
  return encodeURIComponent(name.replace(/\p{Cs}/gu, '\ufffd'));
}

/**
 * A text, or JSON, without characters that turn the direction of what follows on the line: U+FFFD
 * in place of each.
 */
export function withoutTurns(text: string): string {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}
