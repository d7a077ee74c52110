import * as z from 'zod';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import type { EngineLogFormat } from './opa-args.js';

/** A line of the engine's output: a JSON log line, or anything else (usage errors, Go panics). */
export type EngineLine =
  | { kind: 'json'; level: EngineLogLevel; message: string; fields: Readonly<Record<string, unknown>> }
  | { kind: 'text'; text: string };

type EngineLogLevel = 'debug' | 'info' | 'warn' | 'error';

const jsonLine = z.looseObject({ level: z.string(), msg: z.string() });

const LEVELS: Readonly<Record<string, EngineLogLevel>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
  fatal: 'error',
  panic: 'error',
};

/** Parses one line; anything but an OPA log object is text. */
export function parseEngineLine(line: string): EngineLine {
  // A truncated line, or text that begins with a brace, is text.
  const parsed = line.startsWith('{') ? jsonLine.safeParse(jsonOrUndefined(line)) : undefined;
  if (parsed?.success !== true) return { kind: 'text', text: line };
  const { level, msg, time: _ours, 'fields.time': _same, ...fields } = parsed.data;
  return { kind: 'json', level: LEVELS[level] ?? 'info', message: msg, fields };
}

/**
 * Whether a Go panic printed the line. Only text lines count: a JSON line may contain input of a
 * caller (a path, a `print`), and no caller may cause a restart of the engine.
 */
export function isPanicLine(line: EngineLine): boolean {
  return (
    line.kind === 'text' && /^(panic|fatal error): |^\S.* http: panic serving |\bruntime\/panic\.go:\d/.test(line.text)
  );
}

/**
 * Returns the failure that a line describes, for the error message of an exit; undefined if there
 * is none.
 */
export function failureText(line: EngineLine): string | undefined {
  if (line.kind === 'text') return /^(error|panic|fatal error)\b/i.test(line.text) ? line.text : undefined;
  if (line.level !== 'error') return undefined;
  const { err } = line.fields;
  return typeof err === 'string' ? `${line.message} ${err}` : line.message;
}

/** One entry for our own log. */
export interface EngineLogEntry {
  level: EngineLogLevel;
  message: string;
  fields: Readonly<Record<string, unknown>>;
}

/**
 * Converts a line by SYNC_INLINE_ENGINE_LOG_FORMAT: `none`: errors only; `minimal`: the messages;
 * `http`: one line per request, `METHOD path -> status`, and the other messages; `full`: everything
 * with its fields. Errors always include their fields.
 */
export function engineLogEntry(line: EngineLine, format: EngineLogFormat): EngineLogEntry | undefined {
  if (line.kind === 'text') {
    if (failureText(line) !== undefined || isPanicLine(line)) return { level: 'error', message: line.text, fields: {} };
    return format === 'none' ? undefined : { level: 'warn', message: line.text, fields: {} };
  }
  const { level, message, fields } = line;
  if (level === 'error' || format === 'full') return { level, message, fields };
  switch (format) {
    case 'none':
      return undefined;
    case 'minimal':
      return { level, message, fields: {} };
    case 'http': {
      const { req_method: method, req_path: path, resp_status: status } = fields;
      if (method === undefined) return { level, message, fields: {} };
      // The line at the start of a request has no status; the one at its end contains the same and
      // more.
      return status === undefined ? undefined : { level, message: `${method} ${path} -> ${status}`, fields: {} };
    }
  }
}

/**
 * Longer lines are cut into parts of this size: a decision log line can hold a whole input
 * document.
 */
const LINE_LIMIT_CHARS = 1024 * 1024;

/**
 * Returns a function that accepts chunks of text and calls `onLine` for each complete, non-empty
 * line.
 */
export function lineSplitter(onLine: (line: string) => void): (text: string) => void {
  let rest = '';
  return (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') onLine(line.trimEnd());
    if (rest.length > LINE_LIMIT_CHARS) {
      onLine(rest);
      rest = '';
    }
  };
}
