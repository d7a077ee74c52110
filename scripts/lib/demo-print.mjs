const INDENT = '      ';
/** Off a terminal: one line of progress per this many milliseconds. */
const LINE_EVERY_MS = 10_000;
const REDRAW_EVERY_MS = 200;
const CLEAR_LINE = '\r\u001b[K';

/** Text for people: numbered steps, indented lines, progress. Control codes and colour only on a terminal. */
export function createPrinter(stream, steps, env) {
  const tty = stream.isTTY === true && env.TERM !== 'dumb';
  const colour = tty && !env.NO_COLOR;
  const style = (code) => (text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const bold = style(1);
  let number = 0;

  const line = (text = '') => {
    for (const part of text.split('\n')) stream.write(part === '' ? '\n' : `${INDENT}${part}\n`);
  };

  return {
    bold,
    green: style(32),
    red: style(31),
    /** Starts the next step. */
    step(title) {
      number += 1;
      stream.write(`\n${bold(`[${number}/${steps}] ${title}`)}\n`);
    },
    /** A heading outside the steps. */
    title: (text) => stream.write(`${bold(text)}\n`),
    line,
    /** The stream, indented as everything else, for a progress printer that redraws its own line. */
    indented: {
      isTTY: tty,
      columns: (stream.columns || 80) - INDENT.length,
      write(text) {
        const cleared = text.startsWith(CLEAR_LINE);
        stream.write(cleared ? `${CLEAR_LINE}${INDENT}${text.slice(CLEAR_LINE.length)}` : `${INDENT}${text}`);
      },
    },
    /** Shows for how long a promise has been worked on until it settles; answers its value. */
    async working(what, promise) {
      const startedMs = performance.now();
      const timer = setInterval(
        () => {
          const text = `${INDENT}${what} ... ${Math.round((performance.now() - startedMs) / 1000)} s`;
          stream.write(tty ? `${CLEAR_LINE}${text.slice(0, (stream.columns || 80) - 1)}` : `${text}\n`);
        },
        tty ? REDRAW_EVERY_MS : LINE_EVERY_MS,
      );
      try {
        return await promise;
      } finally {
        clearInterval(timer);
        if (tty) stream.write(CLEAR_LINE);
      }
    },
  };
}

/** A duration as people say it. */
export function duration(ms) {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
