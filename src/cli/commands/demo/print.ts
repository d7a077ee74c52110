const INDENT = '      ';
/** Off a terminal: one line of progress per this many milliseconds. */
const LINE_EVERY_MS = 10_000;
const REDRAW_EVERY_MS = 200;
const CLEAR_LINE = '\r\u001b[K';

/** Where the demo prints to: `process.stdout`. */
export interface PrintStream {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

/**
 * Text for people: numbered steps, indented lines, progress. Control codes and colour only on a
 * terminal.
 */
export interface Printer {
  green(text: string): string;
  red(text: string): string;
  /** Starts the next step. */
  step(title: string): void;
  /** A heading outside the steps. */
  title(text: string): void;
  line(text?: string): void;
  /** Shows for how long a promise has been worked on until it settles; answers its value. */
  working<T>(what: string, work: Promise<T>): Promise<T>;
}

/** Makes a printer for so many steps. */
export function createPrinter(stream: PrintStream, steps: number, env: NodeJS.ProcessEnv): Printer {
  const isTerminal = stream.isTTY === true && env.TERM !== 'dumb';
  const hasColour = isTerminal && (env.NO_COLOR ?? '') === '';
  const style = (code: number) => (text: string) => (hasColour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const bold = style(1);
  let number = 0;
  return {
    green: style(32),
    red: style(31),
    step(title) {
      number += 1;
      stream.write(`\n${bold(`[${number}/${steps}] ${title}`)}\n`);
    },
    title: (text) => void stream.write(`${bold(text)}\n`),
    line(text = '') {
      for (const part of text.split('\n')) stream.write(part === '' ? '\n' : `${INDENT}${part}\n`);
    },
    async working(what, work) {
      const startedMs = performance.now();
      const show = (): void => {
        const text = `${INDENT}${what} ... ${Math.round((performance.now() - startedMs) / 1000)} s`;
        stream.write(isTerminal ? `${CLEAR_LINE}${text.slice(0, (stream.columns || 80) - 1)}` : `${text}\n`);
      };
      const timer = setInterval(show, isTerminal ? REDRAW_EVERY_MS : LINE_EVERY_MS);
      try {
        return await work;
      } finally {
        clearInterval(timer);
        if (isTerminal) stream.write(CLEAR_LINE);
      }
    },
  };
}

/** A duration as people say it. */
export function spokenDuration(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
