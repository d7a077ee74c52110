/** A line that `git fetch --progress` redraws: `Receiving objects:  45% (450/1000), 3.20 MiB | 1.10 MiB/s`. */
const PROGRESS =
  /^(?:remote: )?((?:Enumerating|Counting|Compressing|Receiving|Resolving|Unpacking|Updating) [a-z]+): +((?:\d{1,3}% )?\(?\d[\w()/., |]*)/;

/** The longest text that is passed on; much of it comes from the remote. */
const MAX_CHARS = 100;

/** How far git is, by the last complete or redrawn line of a piece of its standard error; undefined where it has none. */
export function progressText(stderr: string): string | undefined {
  for (const line of stderr.split(/[\r\n]+/).reverse()) {
    const [, what, amount] = PROGRESS.exec(line) ?? [];
    if (what !== undefined && amount !== undefined) return `${what}: ${amount.trim()}`.slice(0, MAX_CHARS);
  }
  return undefined;
}

/** Standard error without such lines, for a message. */
export function withoutProgress(stderr: string): string {
  const lines = stderr.split(/[\r\n]+/);
  return lines.filter((line) => !PROGRESS.test(line)).join('\n');
}
