/** Numbers, times and names as people read them: the same on the page and in the terminal. */

/** Stands before a unit and inside "2 refused": the pair never breaks. */
export const NBSP = '\u00a0';
/** What is not known. None is 0. */
export const DASH = '\u2013';

/**
 * Seconds as an age or a duration: `210 ms`, `9.7 s`, `12 s` to 119, `3 min` to 119, `26 h` to 47,
 * `6 d`; never rounded up.
 */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return DASH;
  const positive = Math.max(0, seconds);
  if (positive < 1) return `${Math.floor(positive * 1000)}${NBSP}ms`;
  if (positive < 10) return `${(Math.floor(positive * 10) / 10).toFixed(1)}${NBSP}s`;
  if (positive < 120) return `${Math.floor(positive)}${NBSP}s`;
  if (positive < 7200) return `${Math.floor(positive / 60)}${NBSP}min`;
  if (positive < 172_800) return `${integer(positive / 3600)}${NBSP}h`;
  return `${integer(positive / 86_400)}${NBSP}d`;
}

/** Seconds that were measured: below two minutes one decimal is kept (`13.3 s`). */
export function measured(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || seconds < 1 || seconds >= 120) return duration(seconds);
  return `${(Math.floor(seconds * 10) / 10).toFixed(1)}${NBSP}s`;
}

/**
 * The time from one moment to another, both in milliseconds, as {@link duration}; a moment of 0 is
 * not known.
 */
export function age(since: number | null | undefined, now: number): string {
  return since ? duration((now - since) / 1000) : DASH;
}

/** A whole number with commas, cut to it. */
export function integer(value: number | null | undefined): string {
  if (value === null || value === undefined) return DASH;
  return String(Math.trunc(value)).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `1 file`, `3 files`. */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${integer(value)}${NBSP}${value === 1 ? one : many}`;
}

/** Bytes in B, KB, MB, GB of 1,024 with one decimal. */
export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return DASH;
  if (bytes < 1024) return `${integer(bytes)}${NBSP}B`;
  if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(1)}${NBSP}KB`;
  if (bytes < 1024 ** 3) return `${(bytes / 1024 ** 2).toFixed(1)}${NBSP}MB`;
  return `${(bytes / 1024 ** 3).toFixed(1)}${NBSP}GB`;
}

/** Milliseconds since 1970 as the time of day in UTC: `17:04:11`. */
export function clock(at: number | null | undefined): string {
  return at === null || at === undefined ? DASH : new Date(at).toISOString().slice(11, 19);
}

const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
];

/** The day in UTC: `22 November`, with the year where that is another one than now. */
export function day(at: number, now: number): string {
  const date = new Date(at);
  const year = date.getUTCFullYear() === new Date(now).getUTCFullYear() ? '' : ` ${date.getUTCFullYear()}`;
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}${year}`;
}

/** A moment in full: `22 November 17:04:11 UTC`; of today without the day; 0 is not known. */
export function moment(at: number | null | undefined, now: number): string {
  if (!at) return DASH;
  const isToday = Math.floor(at / 86_400_000) === Math.floor(now / 86_400_000);
  return `${isToday ? '' : `${day(at, now)} `}${clock(at)}${NBSP}UTC`;
}

/** The first 7 signs of a commit. */
export function commit(hash: string | null | undefined): string {
  return hash === null || hash === undefined || hash === '' ? DASH : hash.slice(0, 7);
}

/** A distance: `1 behind`, `at least 3 behind`; of 0 the word for being there. */
export function behind(updates: number | null | undefined, { atLeast = false, none = 'current' } = {}): string {
  if (updates === null || updates === undefined) return DASH;
  if (updates === 0 && !atLeast) return none;
  return `${atLeast ? 'at least ' : ''}${integer(updates)}${NBSP}behind`;
}
