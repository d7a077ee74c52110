import { parseTtl } from '../../auth/ttl.js';

/**
 * Seconds of each unit, by the names that people write. The long ones are OPAL's (opal-protocol
 * P8.3).
 */
const UNITS: Readonly<Record<string, number>> = {
  ...{ w: 604_800, week: 604_800, weeks: 604_800 },
  ...{ d: 86_400, day: 86_400, days: 86_400 },
  ...{ h: 3600, hour: 3600, hours: 3600 },
  ...{ m: 60, min: 60, minute: 60, minutes: 60 },
  ...{ s: 1, second: 1, seconds: 1 },
  ...{ ms: 0.001, milliseconds: 0.001, microseconds: 0.000_001 },
};
/** The forms, for help and errors. */
export const DURATION_FORMS = '30d, 12h, 90m, 2w, 365 days, or ISO 8601 as P30D';

const PART = /(\d{1,15}) ?([a-z]+)/g;
const WHOLE = /^(?:\d{1,15} ?[a-z]+ ?)+$/;

/**
 * A duration in seconds: `30d`, `1h30m`, `2 weeks`, ISO 8601 as `P30D`; undefined for anything
 * else, such as a number without a unit.
 */
export function parseDuration(text: string): number | undefined {
  const words = text.trim();
  if (words.startsWith('P')) return parseTtl(words);
  if (!WHOLE.test(words)) return undefined;
  const parts = [...words.matchAll(PART)].map(
    ([, count = '', unit = '']) => Number(count) * (UNITS[unit] ?? Number.NaN),
  );
  const seconds = parts.reduce((sum, part) => sum + part, 0);
  return Number.isNaN(seconds) ? undefined : seconds;
}
