import { ERROR_CODES } from '../../../lib/errors.js';
import { wrapped } from '../../kit/text.js';
import type { Page } from '../../live/fleet-lines.js';
import { type Output, passing, repeat } from '../../live/repeat.js';
import { ENTER, LEAVE, screenFrame } from '../../live/screen.js';

/** Height of a terminal that does not say. */
const ROWS = 24;

/** One look at a program. */
export interface Look {
  /** For people; or one line of JSON. */
  lines(page: Page): readonly string[];
  /** The same as long as nothing changes but time. */
  readonly key: string;
  /** Throws if a condition is met that the command was asked for. */
  judge(): void;
}

/** Wraps lines only for a terminal: readers of a pipe need whole lines. */
export function terminalPage({ isTTY, columns = 0 }: Pick<Output, 'isTTY' | 'columns'>): Page {
  return { nowMs: Date.now(), width: isTTY === true && columns > 0 ? columns : Number.POSITIVE_INFINITY };
}

/**
 * A page with times by the clock of who answered, which said at `now` what time it is there;
 * undefined: it does not say.
 */
export function onServerClock(now: number | undefined): (page: Page) => Page {
  const aheadMs = now === undefined ? 0 : now - Date.now();
  return (page) => ({ ...page, nowMs: page.nowMs + aheadMs });
}

/** Shows one look, and judges it. */
export async function lookOnce(look: () => Promise<Look>, output: Output): Promise<void> {
  const seen = await look();
  output.write(text(seen.lines(terminalPage(output))));
  seen.judge();
}

/**
 * Looks again and again until it is stopped, and resolves; rejects when a look is judged so, or
 * fails for another reason than that nobody answers. `inPlace`: a terminal shows the last look in
 * place; elsewhere, and for JSON, each change is a block.
 */
export async function watch(look: () => Promise<Look>, output: Output, inPlace: boolean): Promise<void> {
  const show = inPlace && output.isTTY === true ? onScreen(output) : asBlocks(output, inPlace);
  try {
    await repeat(async (signal) => {
      const seen = await look().catch(unreachable);
      if (signal.aborted) return;
      show.next(seen);
      seen.judge();
    }, output);
  } finally {
    show.end();
  }
}

interface Show {
  next(look: Look): void;
  end(): void;
}

/** The screen of a terminal; what it showed last stays behind on the ordinary one. */
function onScreen(output: Output): Show {
  let last: Look | undefined;
  const draw = (): void => {
    if (last === undefined) return;
    const { rows = 0 } = output;
    const title = `Every 2 s; last look at ${new Date().toISOString().slice(11, 19)} UTC; Ctrl-C ends.`;
    output.write(screenFrame([title, '', ...last.lines(terminalPage(output))], rows > 0 ? rows : ROWS));
  };
  output.write(ENTER);
  output.on('resize', draw);
  return {
    next: (look) => {
      last = look;
      draw();
    },
    end: () => {
      output.off('resize', draw);
      output.write(LEAVE);
      if (last !== undefined) output.write(text(last.lines(terminalPage(output))));
    },
  };
}

/** A block for each change, with the time; lines of JSON have none. */
function asBlocks(output: Output, withTime: boolean): Show {
  let shown: string | undefined;
  return {
    next: (look) => {
      if (look.key === shown) return;
      const time = `${new Date().toISOString().replace('T', ' ').slice(0, 19)} UTC`;
      const begin = withTime ? [...(shown === undefined ? [] : ['']), time] : [];
      output.write(text([...begin, ...look.lines(terminalPage(output))]));
      shown = look.key;
    },
    end: () => undefined,
  };
}

/** A look at something that does not answer: it may be about to start. */
function unreachable(error: unknown): Look {
  const { code, message } = passing(error);
  const lines = [message, `What to do: ${ERROR_CODES[code].remedy} [${code}]`];
  return {
    key: message,
    lines: ({ width }) => lines.flatMap((line) => wrapped(line, width, '  ')),
    judge: () => undefined,
  };
}

function text(lines: readonly string[]): string {
  return `${lines.join('\n')}\n`;
}
