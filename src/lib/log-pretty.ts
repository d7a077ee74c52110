import { createRequire } from 'node:module';
import type { DestinationStream } from 'pino';
import type prettyFactory from 'pino-pretty';

/** Lines for people: time, level, component, message, then the other fields. */
export function pretty(): DestinationStream {
  // Loaded here and not at the top: who logs JSON has no use for its thirty modules.
  const factory = createRequire(import.meta.url)('pino-pretty') as typeof prettyFactory;
  return factory({
    destination: 2,
    sync: true,
    ignore: 'pid,hostname,name',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
    // `error` is the text of a failure, one of the fields.
    errorLikeObjectKeys: ['err'],
  });
}
