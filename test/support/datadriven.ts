/**
 * Tests as data: a file has steps, each with what it is to print below `----`, up to an empty line. Lines between steps are
 * for people.
 *
 *     # What this shows.
 *     command word name=value
 *     input, as many lines as it takes
 *     ----
 *     expected
 */
export interface StoryStep {
  /** Number of its first line, from 1. */
  readonly line: number;
  readonly command: string;
  /** What follows the command on its line. */
  readonly words: readonly string[];
  readonly named: Readonly<Record<string, string>>;
  /** Words and named values as they are written. */
  readonly rest: string;
  readonly input: readonly string[];
  readonly expected: readonly string[];
}

/** The steps of a file in order, and what stands between them. */
type Part = { readonly text: string } | { readonly step: StoryStep };

/** Reads a file; throws where a step has no `----`. */
export function parseStory(text: string): readonly Part[] {
  const lines = text.replace(/\n$/, '').split('\n');
  const parts: Part[] = [];
  let at = 0;
  /** The lines up to the one that `ends`, which is left. */
  const upTo = (ends: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && !ends(lines[at] ?? '')) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const first = lines[at] ?? '';
    if (first.trim() === '' || first.startsWith('#')) {
      parts.push({ text: first });
      at++;
      continue;
    }
    const line = ++at;
    const input = upTo((each) => each === '----' || each === '');
    if (lines[at] !== '----') throw new Error(`line ${line}: "${first}" has no ----`);
    at++;
    const expected = upTo((each) => each === '');
    parts.push({ step: { line, ...commandOf(first), input, expected } });
  }
  return parts;
}

/** A step outside of a file; nothing is expected of what it prints. */
export function storyStep(text: string, input: readonly string[] = []): StoryStep {
  return { line: 0, ...commandOf(text), input, expected: [] };
}

function commandOf(text: string): Pick<StoryStep, 'command' | 'words' | 'named' | 'rest'> {
  const [command = '', ...all] = text.split(' ');
  const isNamed = (word: string): boolean => /^[a-z]+=/.test(word);
  return {
    command,
    words: all.filter((word) => !isNamed(word)),
    named: Object.fromEntries(all.filter(isNamed).map((word) => word.split('=', 2) as [string, string])),
    rest: text.slice(command.length + 1),
  };
}

/** The same file with what each step has printed. */
export function storyText(parts: readonly Part[], printed: ReadonlyMap<StoryStep, readonly string[]>): string {
  const lines = parts.flatMap((part) => {
    if ('text' in part) return [part.text];
    const { step } = part;
    return [`${step.command} ${step.rest}`.trim(), ...step.input, '----', ...(printed.get(step) ?? step.expected)];
  });
  return `${lines.join('\n')}\n`;
}
