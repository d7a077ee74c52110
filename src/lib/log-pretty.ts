import { createRequire } from 'node:module';
import type { DestinationStream } from 'pino';
import type { prettyFactory } from 'pino-pretty';
import { escapeControls } from './control-characters.js';
import { readableLine } from './log-line.js';
import { LogOutput } from './log-output.js';

/**
 * Lines for people: date and time of this place, level, message, then the other fields; in colours on a terminal that has them. What others
 * have named shows its control characters as JSON writes them.
 */
export function pretty(): DestinationStream {
  // Loaded here and not at the top: who logs JSON has no use for it.
  const library = createRequire(import.meta.url)('./pino-pretty.cjs') as { prettyFactory: typeof prettyFactory };
  const print = library.prettyFactory({
    ignore: 'pid,hostname,name',
    translateTime: 'SYS:yyyy-mm-dd HH:MM:ss.l',
    colorize: process.stderr.isTTY && process.stderr.hasColors(),
    singleLine: true,
    // `error` is the text of a failure, one of the fields.
    errorLikeObjectKeys: ['err'],
    messageFormat: (line, key) => escapeControls(String(line[key] ?? '')),
  });
  const output = new LogOutput(2);
  return { write: (line) => output.write(print(readableLine(line))) };
}
