/**
 * What a terminal is told to show one thing in place (ECMA-48, and the alternate screen of xterm,
 * which has no scrollback).
 */

/** Takes the alternate screen and hides the cursor. */
export const ENTER = '\u001b[?1049h\u001b[?25l';
/** Gives the screen back as it was. */
export const LEAVE = '\u001b[?25h\u001b[?1049l';

const HOME = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/**
 * Draws lines over what the screen shows: nothing flickers, and nothing scrolls, since no more
 * lines come than it has. `rows`: height of the screen.
 */
export function screenFrame(lines: readonly string[], rows: number): string {
  const room = Math.max(1, rows);
  const left = lines.length - room;
  const shown = left <= 0 ? lines : [...lines.slice(0, room - 1), `... and ${left + 1} more lines`];
  return `${HOME}${shown.map((line) => `${line}${CLEAR_LINE}`).join('\n')}${CLEAR_BELOW}`;
}
