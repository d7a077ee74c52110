import * as z from 'zod';
import { jsonOrUndefined } from '../../lib/json-text.js';
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

/** Reads one line; whatever is not an OPA log object is text. */
export function parseEngineLine(line: string): EngineLine {
  // Also half a line, or text that begins with a brace, is text.
  const parsed = line.startsWith('{') ? jsonLine.safeParse(jsonOrUndefined(line)) : undefined;
  if (parsed?.success !== true) return { kind: 'text', text: line };
  const { level, msg, time: _ours, 'fields.time': _same, ...fields } = parsed.data;
  return { kind: 'json', level: LEVELS[level] ?? 'info', message: msg, fields };
}

/**
 * True for a line that a Go panic prints. Only text lines count: a JSON line can hold what a caller of the engine wrote (a
 * path, a `print`), and no caller may restart the engine.
 */
export function isPanicLine(line: EngineLine): boolean {
  return (
    line.kind === 'text' && /^(panic|fatal error): |^\S.* http: panic serving |\bruntime\/panic\.go:\d/.test(line.text)
  );
}

/** The reason that a line gives for a failure, for the error message of an exit; undefined where it gives none. */
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
 * What is passed on, by SYNC_INLINE_ENGINE_LOG_FORMAT: `none` errors only; `minimal` the messages; `http` one line per
 * request, `METHOD path -> status`, and the messages that are not about a request; `full` everything with its fields.
 * Errors always come with their fields.
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
      // The line at a request's arrival has no status yet; the one at its end says the same and more.
      return status === undefined ? undefined : { level, message: `${method} ${path} -> ${status}`, fields: {} };
    }
  }
}

/** Longer lines are cut into parts of this size: a decision log line can hold a whole input document. */
const LINE_LIMIT_CHARS = 1024 * 1024;

/** Returns a function that takes pieces of text and calls `onLine` for each whole, non-empty line. */
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
