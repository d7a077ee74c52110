import * as z from 'zod';

/**
 * Furthest time from 1970 that is taken from anybody, in milliseconds: sums and differences of two
 * are still dates.
 */
export const MAX_INSTANT_MS = 4e15;

/** A time in milliseconds since 1970, or a difference of two, that a date can show. */
export const instant = z.number().min(-MAX_INSTANT_MS).max(MAX_INSTANT_MS);
