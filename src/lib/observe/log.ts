import fs from 'node:fs';
import { createRequire } from 'node:module';
import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';
import type { prettyFactory } from 'pino-pretty';
import { escapeControls } from '../json/control-characters.js';
import { LOG_LEVELS, type LogLevel, LogLevels } from './log-levels.js';
import { jsonLine, readableLine } from './log-line.js';

/** Writes one line: its fields and what happened, or that alone. */
interface WriteLine {
  (fields: object, message?: string): void;
  (message: string): void;
}

/**
 * The logger that every part is given. One line per event; `child({ component })` per part. A type
 * of our own, so that those who embed a server or client need no other package for it; a logger of
 * pino is one.
 */
export interface Logger {
  readonly debug: WriteLine;
  readonly info: WriteLine;
  readonly warn: WriteLine;
  readonly error: WriteLine;
  child(fields: object): Logger;
}

type Method = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

/** What OPAL calls them where it has another name (opal-protocol P8.2). */
export const OPAL_LOG_LEVELS = { TRACE: 'debug', SUCCESS: 'info', WARNING: 'warn', CRITICAL: 'error' } as const;

/** How a program logs. */
export interface LogOptions {
  level: LogLevel;
  /** `json`: one object a line; `pretty`: for people. */
  format: 'json' | 'pretty';
}

/**
 * Lines wait for each other this long, or until there are so many bytes: a write costs as much as a
 * whole update.
 */
const GATHER_MS = 50;
const GATHER_BYTES = 8_192;

/** The root logger of a program. */
export type ProgramLogger = Logger & {
  /** Writes the lines that wait. */
  flush(): void;
};

/**
 * The program's root logger; writes to standard error so that standard output stays for results. A
 * line of JSON has `time` as ISO 8601 in UTC, and `level` by name.
 */
export function createLogger(name: string, options: LogOptions): ProgramLogger {
  const settings = {
    name,
    level: LOG_LEVELS[0],
    base: { name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: ['token', '*.token', 'headers', '*.headers', '*.config.headers'], censor: '[secret]' },
  };
  const lines = options.format === 'pretty' ? pino(settings, pretty()) : pino(settings, gathered(2));
  const levels = new LogLevels(options.level);
  return Object.assign(new ComponentLogger(lines, levels, ''), { flush: () => lines.flush() });
}

/**
 * The levels of the log that a logger belongs to; undefined for a logger that {@link createLogger}
 * has not made.
 */
export function logLevelsOf(log: Logger): LogLevels | undefined {
  return log instanceof ComponentLogger ? log.levels : undefined;
}

function ignore(): void {
  // below the level
}

/** Logs the lines of one component that its level permits at that moment. */
class ComponentLogger implements Logger {
  readonly levels: LogLevels;
  readonly #lines: PinoLogger;
  readonly #component: string;
  readonly #cell: { readonly threshold: number };
  readonly #write: Record<Method, WriteLine>;

  constructor(lines: PinoLogger, levels: LogLevels, component: string) {
    this.levels = levels;
    this.#lines = lines;
    this.#component = component;
    this.#cell = levels.cell(component);
    const write = (method: Method): WriteLine => lines[method].bind(lines);
    this.#write = {
      ...{ trace: write('trace'), debug: write('debug'), info: write('info') },
      ...{ warn: write('warn'), error: write('error'), fatal: write('fatal') },
    };
  }

  /** Of no use to us; Fastify, for one, takes only a logger that has it. */
  get trace(): WriteLine {
    return this.#at('trace', 0);
  }

  get debug(): WriteLine {
    return this.#at('debug', 0);
  }

  get info(): WriteLine {
    return this.#at('info', 1);
  }

  get warn(): WriteLine {
    return this.#at('warn', 2);
  }

  get error(): WriteLine {
    return this.#at('error', 3);
  }

  /** As {@link trace}. */
  get fatal(): WriteLine {
    return this.#at('fatal', 3);
  }

  child(fields: object): Logger {
    const component = 'component' in fields ? String(fields.component) : this.#component;
    return new ComponentLogger(this.#lines.child(fields), this.levels, component);
  }

  #at(method: Method, severity: number): WriteLine {
    return severity >= this.#cell.threshold ? this.#write[method] : ignore;
  }
}

/**
 * Writes lines together, at the latest after {@link GATHER_MS} and when the process exits; a kill
 * -9 loses those that wait. Before the exit the operating system decides when they come to the
 * disk: to wait for that would hold the whole program each time.
 */
function gathered(fd: number): DestinationStream & { flush(): void } {
  const output = new LogOutput(fd);
  let waiting: string[] = [];
  let length = 0;
  const flush = (): void => {
    const text = waiting.join('');
    waiting = [];
    length = 0;
    if (text !== '') output.write(text);
  };
  process.once('exit', () => {
    flush();
    output.sync();
  });
  return {
    write(line) {
      const text = jsonLine(line);
      length += text.length;
      if (waiting.push(text) === 1) setTimeout(flush, GATHER_MS).unref();
      if (length >= GATHER_BYTES) flush();
    },
    flush,
  };
}

/** A logger that drops everything: the default when embedding, and for tests. */
export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}

/** A shorter secret is not looked for in what others say: it would be found everywhere. */
const SHORTEST_HIDDEN = 4;

/**
 * A value that must not be seen, as every secret setting has it: it prints as `***` in logs, JSON
 * and strings. `reveal()` gives the text, to be used and not to be shown; `hideIn` and `place` are
 * what may be shown.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  /**
   * What somebody says who was told the value, without it: as it is, as JSON and URLs write it, and
   * as base64.
   */
  hideIn(text: string): string {
    const value = this.reveal();
    if (value.length < SHORTEST_HIDDEN) return text;
    const bytes = Buffer.from(value);
    const escaped = [JSON.stringify(value).slice(1, -1), encodeURIComponent(bytes.toString())];
    const forms = [value, ...escaped, bytes.toString('base64')];
    return forms.reduce((shown, form) => shown.replaceAll(form, '***'), text);
  }

  /** Where an address leads, without user, password and query; `***` for what is no address. */
  get place(): string {
    return /^[a-z][a-z0-9+.-]*:\/\//i.test(this.#value) ? redactUrl(this.#value) : '***';
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

/**
 * A URL text with user name, password and query replaced, for logs and responses; also for a text
 * that is no valid URL.
 */
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
 * Not a URL (a port out of range), or not of the form with `//` (a path, the scp form of git, which
 * reads as a scheme): what may be secret is found by its place. A password may have any character
 * here, so it ends at the last `@`.
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

/**
 * Lines for people: date and time of this place, level, message, then the other fields; in colours
 * on a terminal that has them. What others have named shows its control characters as JSON writes
 * them.
 */
function pretty(): DestinationStream {
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

/** A pipe that is full takes more as soon as its reader reads: until then nothing else helps. */
const FULL_WAIT_MS = 10;

/**
 * Where a log is written: each text at once and whole, on the caller's thread. A reader that has
 * gone away loses what comes after, and holds up nobody (`flushSync` of sonic-boom 4, which pino
 * writes with, would try for ever).
 */
class LogOutput {
  readonly #fd: number;
  #isGone = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(text: string): void {
    if (this.#isGone) return;
    for (let left = Buffer.from(text); left.length > 0; ) {
      try {
        left = left.subarray(fs.writeSync(this.#fd, left));
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'EAGAIN') {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_WAIT_MS);
          continue;
        }
        this.#isGone = code === 'EPIPE';
        return; // a full disk: what comes later may find room
      }
    }
  }

  /** Waits for the disk, where there is one. */
  sync(): void {
    try {
      fs.fsyncSync(this.#fd);
    } catch {
      // a pipe or a terminal
    }
  }
}
