import * as z from 'zod';

/** From which size on the update log refuses updates, in answers. */
export const refusedFromBytes = z
  .number()
  .optional()
  .describe('Updates of so many bytes and more are refused, smaller ones may be taken; missing: none is taken');

/** `updates`, or `updates of 100,034 bytes and more`: what the log refuses. Pure. */
export function refusedUpdates(fromBytes: number | undefined): string {
  return fromBytes === undefined ? 'updates' : `updates of ${fromBytes.toLocaleString('en-US')} bytes and more`;
}
