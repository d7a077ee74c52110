import { SyncError } from '../../../lib/errors.js';

/** A step of the demo did not happen; the message says why. */
export class DemoFailure extends SyncError {
  constructor(message: string, cause?: unknown) {
    super('demo_failed', message, cause === undefined ? {} : { cause });
  }
}
