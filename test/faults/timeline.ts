import { appendFileSync } from 'node:fs';
import { join } from 'node:path';

/** What happened when, for whoever reads about a failure. */
export interface Timeline {
  /** Milliseconds since the run began. */
  now(): number;
  say(what: string): void;
  /** Lines between two moments. */
  between(fromMs: number, toMs: number): string[];
}

/** A timeline that is also written to `<dir>/timeline.log`. */
export function timeline(dir: string, echo: (line: string) => void): Timeline {
  const startedMs = performance.now();
  const lines: { atMs: number; text: string }[] = [];
  const now = (): number => performance.now() - startedMs;
  return {
    now,
    say: (what) => {
      const atMs = now();
      const text = `${(atMs / 1000).toFixed(3).padStart(9)} ${what}`;
      lines.push({ atMs, text });
      appendFileSync(join(dir, 'timeline.log'), `${text}\n`);
      echo(text);
    },
    between: (fromMs, toMs) => lines.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs).map(({ text }) => text),
  };
}
