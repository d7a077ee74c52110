import { type Logger as PinoLogger, pino } from 'pino';
import { pretty } from './log-pretty.js';

/** The logger that every part is given. One line per event; `child({ component })` per part. */
export type Logger = Pick<PinoLogger, 'debug' | 'info' | 'warn' | 'error'> & { child(fields: object): Logger };

/** Levels that SYNC_LOG_LEVEL accepts. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

/** How a program logs. */
export interface LogOptions {
  level: (typeof LOG_LEVELS)[number];
  /** `json`: one object a line; `pretty`: for people. */
  format: 'json' | 'pretty';
}

/** The program's root logger; writes to standard error so that standard output stays for results. */
export function createLogger(name: string, options: LogOptions): Logger {
  const settings = {
    name,
    level: options.level,
    base: { name },
    redact: { paths: ['token', '*.token', 'headers', '*.headers', '*.config.headers'], censor: '[secret]' },
  };
  return options.format === 'pretty' ? pino(settings, pretty()) : pino(settings, pino.destination(2));
}

/** A logger that drops everything: the default when embedding, and for tests. */
export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}

/** A value that must not be seen: it prints as `***` in logs, JSON and strings; `reveal()` gives the text. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return '***';
  }

  toJSON(): string {
    return '***';
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return '***';
  }
}

/** A URL text with user name, password and query replaced, for logs and answers. */
export function redactUrl(url: string): string {
  try {
    const parsed = new URL(url);
    if (parsed.username !== '' || parsed.password !== '') {
      parsed.username = '***';
      parsed.password = '';
    }
    if (parsed.search !== '') parsed.search = '?***';
    return parsed.href;
  } catch {
    // Not a URL (a path, or the scp form of git): credentials, if any, stand before an @ that follows a colon.
    return url.replace(/^([^:@/]+):[^@/]+@/, '$1:***@');
  }
}
