import { z } from 'zod';
import type { PolicySourceStatus } from './source.js';

/** The policy source as answers show it. */
export const sourceView = z.object({
  state: z.enum(['none', 'starting', 'following', 'failing']),
  head: z.string().nullish(),
  wanted: z.string().optional().describe('The commit that the server instances agreed on and that is not here yet'),
  doubted: z.string().optional().describe('A commit that the source shows and that may be an older one'),
  error: z.string().nullish().describe('Why the last look failed, or why its commit is refused'),
  code: z.string().optional().describe('The code of that error (docs/errors.md)'),
  failing_since: z.iso
    .datetime()
    .optional()
    .describe('When the first of the looks was that failed since the last good one'),
  warnings: z
    .array(z.string())
    .optional()
    .describe(
      'What is to know of the served commit: data files that another one replaces, lines of manifests that do not count',
    ),
});
export type SourceView = z.infer<typeof sourceView>;

/** A {@link SourceView}; `none` where no source is configured. */
export function viewOfSource(status: PolicySourceStatus | undefined): SourceView {
  if (status === undefined) return { state: 'none' };
  const { state, head, wanted, doubted, error, code, failingSinceMs, warnings } = status;
  return {
    state,
    head: head ?? null,
    ...(wanted !== undefined && wanted !== head && { wanted }),
    ...(doubted !== undefined && { doubted }),
    error: error ?? null,
    ...(code !== undefined && { code }),
    ...(failingSinceMs !== undefined && { failing_since: new Date(failingSinceMs).toISOString() }),
    ...(warnings.length > 0 && { warnings: [...warnings] }),
  };
}
