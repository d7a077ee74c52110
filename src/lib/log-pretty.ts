import { createRequire } from 'node:module';
import type { DestinationStream } from 'pino';
import type prettyFactory from 'pino-pretty';
import { escapeControls } from './control-characters.js';
import { readableLine } from './log-line.js';

/**
 * Lines for people: date and time of this place, level, message, then the other fields; in colours on a terminal that has them. What others
 * have named shows its control characters as JSON writes them.
 */
export function pretty(): DestinationStream {
  // Loaded here and not at the top: who logs JSON has no use for it.
  const factory = createRequire(import.meta.url)('./pino-pretty.cjs') as typeof prettyFactory;
  const lines = factory({
    destination: 2,
    sync: true,
    ignore: 'pid,hostname,name',
    translateTime: 'SYS:yyyy-mm-dd HH:MM:ss.l',
    colorize: process.stderr.isTTY && process.stderr.hasColors(),
    singleLine: true,
    // `error` is the text of a failure, one of the fields.
    errorLikeObjectKeys: ['err'],
    messageFormat: (line, key) => escapeControls(String(line[key] ?? '')),
  });
  return { write: (line) => lines.write(readableLine(line)) };
}
