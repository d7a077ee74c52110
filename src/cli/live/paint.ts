import { withoutControls } from '../../lib/json/control-characters.js';
/** What the output can show. */
export interface Style {
  readonly hasColour: boolean;
  readonly isUnicode: boolean;
}

/** A text with its weight. */
export interface Word {
  readonly text: string;
  readonly tone?: 'strong' | 'bad' | 'warn' | 'quiet' | undefined;
}

/** Begin and end of each weight (ECMA-48). */
const CODES = {
  strong: ['1', '22'],
  bad: ['31', '39'],
  warn: ['33', '39'],
  quiet: ['2', '22'],
} as const;
/** Signs of sentences that not every terminal has. */
const ASCII: readonly (readonly [RegExp, string])[] = [
  [/·/g, '-'],
  [/–/g, '-'],
  [/…/g, '...'],
  [/\u00a0/g, ' '],
  [/[^\x20-\x7e]/g, '?'],
];

/**
 * The style of a terminal: no colours with `NO_COLOR`, signs beyond ASCII only in a locale of
 * UTF-8.
 */
export function styleOf(env: NodeJS.ProcessEnv): Style {
  const locale = [env.LC_ALL, env.LC_CTYPE, env.LANG].find((name) => name !== undefined && name !== '') ?? '';
  return { hasColour: (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb', isUnicode: /utf-?8/i.test(locale) };
}

/** One line of words, as the terminal takes them: without control characters of others. */
export function paint(words: readonly Word[], { hasColour, isUnicode }: Style): string {
  return words
    .map(({ text: given, tone }) => {
      const text = withoutControls(given);
      const shown = isUnicode
        ? text.replaceAll('\u00a0', ' ')
        : ASCII.reduce((all, [from, to]) => all.replace(from, to), text);
      if (!hasColour || tone === undefined || shown === '') return shown;
      const [begin, end] = CODES[tone];
      return `\u001b[${begin}m${shown}\u001b[${end}m`;
    })
    .join('');
}

/** Breaks words into lines at spaces; a no-break space holds. */
export function wrapWords(words: readonly Word[], { width, style }: { width: number; style: Style }): string[] {
  const lines: Word[][] = [[]];
  let length = 0;
  for (const { text, tone } of words) {
    for (const [token] of text.matchAll(/ +|[^ ]+/g)) {
      const isSpace = token.startsWith(' ');
      if (length + (isSpace ? 0 : token.length) > width && length > 0) {
        lines.push([]);
        length = 0;
      }
      if (isSpace && length === 0) continue;
      const fitting = token.slice(0, Math.max(1, width));
      append(lines.at(-1), { text: fitting, tone });
      length += fitting.length;
    }
  }
  return lines.map((line) => paint(line, style).trimEnd());
}

/** Adds a word, to the one before if that has the same weight. */
function append(line: Word[] = [], { text, tone }: Word): void {
  const last = line.at(-1);
  if (last !== undefined && last.tone === tone) line[line.length - 1] = { text: last.text + text, tone };
  else line.push({ text, tone });
}
