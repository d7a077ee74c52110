/**
 * Characters that command a terminal (C0, C1), end a line, or turn the direction of a text: what a
 * peer calls itself may have them, and no line that people read.
 */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
/** All of them but newlines, and the sequences of colours. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: a colour begins with one
const COMMANDS = /(?!\n|\u001b\[[\d;]{0,20}m)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A text on one line: each control character is a space. */
export function withoutControls(text: string): string {
  return text.replace(CONTROLS, ' ');
}

/** The lines of a text without any but the ends of lines. */
export function linesWithoutControls(text: string): string {
  return text.replace(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ');
}

/**
 * Lines for a terminal, with the newlines and colours that we gave them and without other control
 * characters.
 */
export function forTerminal(text: string): string {
  return text.replace(COMMANDS, ' ');
}

/**
 * A text with its control characters as JSON may write them: `\n`, `\u009b`; `shown`: how such an
 * escape is written.
 */
export function escapeControls(text: string, shown = (sequence: string): string => sequence): string {
  return text.replace(CONTROLS, (character) => shown(escaped(character)));
}

function escaped(character: string): string {
  const json = JSON.stringify(character).slice(1, -1);
  if (json !== character) return json;
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
