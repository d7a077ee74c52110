import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';
import { pretty } from './log-pretty.js';

/** The logger that every part is given. One line per event; `child({ component })` per part. */
export type Logger = Pick<PinoLogger, 'debug' | 'info' | 'warn' | 'error'> & { child(fields: object): Logger };

/** Levels that SYNC_LOG_LEVEL accepts. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

/** What OPAL calls them where it has another name (opal-protocol P8.2). */
export const OPAL_LOG_LEVELS = { TRACE: 'debug', SUCCESS: 'info', WARNING: 'warn', CRITICAL: 'error' } as const;

/** How a program logs. */
export interface LogOptions {
  level: (typeof LOG_LEVELS)[number];
  /** `json`: one object a line; `pretty`: for people. */
  format: 'json' | 'pretty';
}

/** Lines wait for each other this long, or until there are so many bytes: a write costs as much as a whole update. */
const GATHER_MS = 50;
const GATHER_BYTES = 8_192;

/** The root logger of a program. */
export type ProgramLogger = Logger & {
  /** Writes the lines that wait. */
  flush(): void;
};

/** The program's root logger; writes to standard error so that standard output stays for results. */
export function createLogger(name: string, options: LogOptions): ProgramLogger {
  const settings = {
    name,
    level: options.level,
    base: { name },
    redact: { paths: ['token', '*.token', 'headers', '*.headers', '*.config.headers'], censor: '[secret]' },
  };
  return options.format === 'pretty' ? pino(settings, pretty()) : pino(settings, gathered(2));
}

/**
 * Writes lines together, at the latest after {@link GATHER_MS} and when the process exits; a kill -9 loses those that wait. Before
 * the exit the operating system decides when they come to the disk: to wait for that would hold the whole program each time.
 */
function gathered(fd: number): DestinationStream & { flush(): void } {
  const destination = pino.destination({ dest: fd, sync: true, minLength: GATHER_BYTES });
  let isWaiting = false;
  const flush = (): void => {
    isWaiting = false;
    destination.flushSync();
  };
  const write = (): void => {
    isWaiting = false;
    destination.flush();
  };
  process.once('exit', flush);
  return {
    write(line) {
      destination.write(line);
      if (isWaiting) return;
      isWaiting = true;
      setTimeout(write, GATHER_MS).unref();
    },
    flush,
  };
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

/** A URL text with user name, password and query replaced, for logs and responses; also for a text that is no valid URL. */
export function redactUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || (parsed.host === '' && !hasAuthority(url))) return redactText(url);
  if (parsed.username !== '' || parsed.password !== '') {
    parsed.username = '***';
    parsed.password = '';
  }
  if (parsed.search !== '') parsed.search = '?***';
  return parsed.href;
}

/**
 * Not a URL (a port out of range), or not of the form with `//` (a path, the scp form of git, which reads as a scheme):
 * what may be secret is found by its place. A password may have any character here, so it ends at the last `@`.
 */
function redactText(text: string): string {
  if (!hasAuthority(text)) return text.replace(/^([^:@/]+):.*@/s, '$1:***@');
  const start = text.indexOf('//') + 2;
  const scheme = text.slice(0, start);
  const at = text.lastIndexOf('@');
  // Either the password has a `?`, or the query an `@`: no telling which.
  if (/[?#]/.test(text.slice(0, Math.max(at, 0)))) return `${scheme}***`;
  const [place = '', query] = text.slice(Math.max(at + 1, start)).split(/\?|#/, 2);
  return `${scheme}${at === -1 ? '' : '***@'}${place}${query === undefined ? '' : '?***'}`;
}

function hasAuthority(text: string): boolean {
  return /^(?:[A-Za-z][A-Za-z0-9+.-]*:)?\/\//.test(text);
}
