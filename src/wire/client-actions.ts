import * as z from 'zod';

/** What a client can be asked to do. */
export const CLIENT_ACTIONS = {
  refresh: 'fetches policy and data again',
  prune: 'removes documents that the log does not know',
  drift_check: 'compares its engine with what it wrote, and repairs differences',
  log_level: 'logs with another level until its next start',
} as const;
export type ClientAction = keyof typeof CLIENT_ACTIONS;

export const actionBody = z.object({
  action: z.enum(['refresh', 'prune', 'drift_check', 'log_level']),
  level: z.enum(['debug', 'info', 'warn', 'error']).optional().describe('Of log_level'),
});
export type ActionBody = z.infer<typeof actionBody>;
