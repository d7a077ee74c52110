import { escapeControls } from '../json/control-characters.js';
import { parseChecked } from '../json/json.js';

/** A longer line is shortened: a peer may have named something in it. */
const MAX_LINE = 32 * 1024;
/** What is kept of a text, and of a list, in a line that is shortened. */
const MAX_TEXT = 2_000;
const MAX_ITEMS = 50;

/**
 * The line of JSON that a logger writes, bounded, and without a character that could command a
 * terminal; it means the same. Pure.
 */
export function jsonLine(line: string): string {
  return `${escapeControls(bounded(line))}\n`;
}

/**
 * The same line for a reader that shows what its texts say: there the escapes themselves are the
 * text. Pure.
 */
export function readableLine(line: string): string {
  return `${escapeControls(bounded(line), (sequence) => sequence.replaceAll('\\', '\\\\'))}\n`;
}

function bounded(line: string): string {
  const text = line.endsWith('\n') ? line.slice(0, -1) : line;
  return text.length > MAX_LINE ? shortened(text) : text;
}

function shortened(text: string): string {
  const line = parseChecked(text) as Record<string, unknown>; // the logger wrote it
  const short = JSON.stringify(cut(line));
  if (short.length <= MAX_LINE) return short;
  const { level, time, name, component, msg } = line;
  return JSON.stringify(cut({ level, time, name, component, left_out: 'fields that are too long', msg }));
}

function cut(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.length <= MAX_TEXT ? value : `${value.slice(0, MAX_TEXT)}... (${value.length} characters)`;
  }
  if (Array.isArray(value)) {
    const more = value.length > MAX_ITEMS ? [`... (${value.length} items)`] : [];
    return [...value.slice(0, MAX_ITEMS).map(cut), ...more];
  }
  if (value === null || typeof value !== 'object') return value;
  const members = Object.entries(value).slice(0, MAX_ITEMS);
  return Object.fromEntries(members.map(([key, member]) => [key.slice(0, MAX_TEXT), cut(member)]));
}
