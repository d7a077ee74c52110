import type { DestinationStream } from 'pino';
import prettyFactory from 'pino-pretty';

/** Lines for people: time, level, component, message, then the other fields. */
export function pretty(): DestinationStream {
  return prettyFactory({
    destination: 2,
    sync: true,
    ignore: 'pid,hostname,name',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  });
}
