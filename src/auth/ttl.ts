/**
 * The forms that the `ttl` of `POST /token` may have (opal-protocol P3.3): seconds as a number or a
 * text, `[D day(s), ]` or `[D ]` before `[HH:]MM:SS[.ffffff]`, and ISO 8601 of days, hours, minutes
 * and seconds.
 */
const CLOCK = /^(?:(\d{1,9}) (?:days?, )?)?(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,12})(?:\.(\d{1,12}))?$/;
const ISO =
  /^P(?:(\d{1,9}(?:\.\d{1,9})?)D)?(?:T(?:(\d{1,9}(?:\.\d{1,9})?)H)?(?:(\d{1,9}(?:\.\d{1,9})?)M)?(?:(\d{1,12}(?:\.\d{1,9})?)S)?)?$/;

/**
 * A duration in seconds; undefined for other values. Unlike OPAL, negative durations are not
 * accepted.
 */
export function parseTtl(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) && value >= 0 ? value : undefined;
  if (typeof value !== 'string' || value.length > 64) return undefined;
  const clock = CLOCK.exec(value);
  if (clock !== null) {
    const [, days, hours, minutes, seconds, fraction = '0'] = clock;
    return inSeconds(days, hours, minutes, seconds) + Number(`0.${fraction}`);
  }
  const iso = ISO.exec(value);
  if (iso === null || !/\d/.test(value) || value.endsWith('T')) return undefined;
  return inSeconds(iso[1], iso[2], iso[3], iso[4]);
}

function inSeconds(...parts: readonly (string | undefined)[]): number {
  const [days = 0, hours = 0, minutes = 0, seconds = 0] = parts.map((part) => Number(part ?? 0));
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
}
