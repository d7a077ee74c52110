import * as z from 'zod';

/** A query parameter with topics: separated by commas, repeated, or both. */
export const topicsQuery = z
  .union([z.string(), z.array(z.string()).max(1_000)])
  .transform((given): ReadonlySet<string> => new Set([given].flat().flatMap((text) => text.split(',').filter(Boolean))))
  .refine((topics) => topics.size > 0, 'must name a topic');

/** True where somebody who may see `permitted` and asked for `wanted` sees something with these topics; undefined: all. */
export function isShown(
  topics: readonly string[],
  permitted: ReadonlySet<string> | undefined,
  wanted: ReadonlySet<string> | undefined,
): boolean {
  return topics.some((topic) => (permitted?.has(topic) ?? true) && (wanted?.has(topic) ?? true));
}
