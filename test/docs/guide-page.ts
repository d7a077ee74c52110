import { spawnSync } from 'node:child_process';

/** A fenced block of a page that a reader is expected to type, or the lines of a sample of it. */
export interface Block {
  /** Line of the fence in the page, from 1. */
  readonly line: number;
  /** `sh`: commands; `sample`: `$ command` with its output; or the language of a block that is not run. */
  readonly language: string;
  readonly text: string;
  /** Why it is not run here: what `<!-- not run: ... -->` above it says. */
  readonly notRun: string | undefined;
}

const FENCE = /^( *)```(\S*)\s*$/;
const NOT_RUN = /^ *<!-- not run: (.+) -->$/;

/** The fenced blocks of a page, in their order. */
export function blocksOf(page: string): Block[] {
  const found: Block[] = [];
  const lines = page.split('\n');
  let notRun: string | undefined;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? '';
    const mark = NOT_RUN.exec(line);
    const fence = FENCE.exec(line);
    if (mark !== null) notRun = mark[1];
    else if (fence !== null) {
      const end = lines.findIndex((other, index) => index > at && FENCE.exec(other)?.[2] === '');
      if (end < 0) throw new Error(`the block of line ${at + 1} has no end`);
      const [, indent = '', name = ''] = fence;
      const text = lines
        .slice(at + 1, end)
        .map((each) => (each.startsWith(indent) ? each.slice(indent.length) : each))
        .join('\n');
      const language = name === '' && text.startsWith('$ ') ? 'sample' : name;
      found.push({ line: at + 1, language, text, notRun });
      notRun = undefined;
      at = end;
    } else if (line.trim() !== '') notRun = undefined;
  }
  return found;
}

/** What a reader types at once, and what the page says that it prints. */
export interface Command {
  readonly text: string;
  /** JSON in a comment behind or below it, in which `...` stands for anything. */
  readonly expected: string | undefined;
}

/** The commands of a block: lines that the shell takes as a whole. Comments without a command are none. */
export function commandsOf(block: string): Command[] {
  const commands: { text: string; expected: string | undefined }[] = [];
  let collected = '';
  let isExpectation = false;
  for (const line of block.split('\n')) {
    const last = commands.at(-1);
    if (collected === '' && line.startsWith('#')) {
      const text = line.replace(/^# ?/, '').trim();
      if (last !== undefined && (/^[[{]/.test(text) || isExpectation)) {
        last.expected = `${last.expected ?? ''}${text}`;
        isExpectation = true;
      }
      continue;
    }
    isExpectation = false;
    if (collected === '' && line.trim() === '') continue;
    collected += `${line}\n`;
    if (!isWhole(collected)) continue;
    commands.push({ text: collected.trim(), expected: /\s# ([[{].*)$/.exec(line)?.[1]?.trim() });
    collected = '';
  }
  if (collected !== '') throw new Error(`the shell does not take this as a whole:\n${collected}`);
  return commands;
}

/** Whether a shell would run it, rather than wait for more. */
function isWhole(text: string): boolean {
  if (/\\\n$/.test(text)) return false;
  const { status, stderr } = spawnSync('bash', ['-n', '-c', text], { encoding: 'utf8' });
  return status === 0 && !stderr.includes('here-document');
}

/** Whether output is what a page says: JSON, in which `...` stands for anything. */
export function isAsSaid(output: string, expected: string): boolean {
  let compact: string;
  try {
    compact = JSON.stringify(JSON.parse(output));
  } catch {
    return false; // not JSON: not what is said
  }
  return new RegExp(`^${pattern(expected.replaceAll(/(?<=[:,{[]) (?=["{[\dtfn])/g, ''))}$`, 's').test(compact);
}

function pattern(text: string): string {
  return text
    .split('...')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('.*');
}

/** Settings in the form of an environment file: names and values; undefined for a block that has commands. */
export function settingsOf(block: string): { name: string; value: string }[] | undefined {
  const lines = block.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  if (!/^SYNC_\w+=/.test(lines[0] ?? '') || !isSettings(block)) return undefined;
  const whole = /^'?[[{]/.test(block.slice(block.indexOf('=') + 1)) && !/^SYNC_\w+=.*\n(?:.*\n)*SYNC_/m.test(block);
  const items = whole ? [block.trim()] : lines.flatMap((line) => line.replace(/\s+#.*$/, '').split(/ (?=SYNC_\w+=)/));
  return items.map((item) => {
    const [, name = '', value = ''] = /^(\w+)=(.*)$/s.exec(item.trim()) ?? [];
    return { name, value: value.replace(/^'(.*)'$/s, '$1').replace(/^"(.*)"$/s, '$1') };
  });
}

/** Assignments alone: what the shell would do is to set variables, nothing else. */
function isSettings(block: string): boolean {
  const script = `PATH=; ${block}`;
  const { status } = spawnSync('bash', ['-c', `set -e\ncommand_not_found_handle() { exit 9; }\n${script}`], {
    encoding: 'utf8',
  });
  return status === 0;
}

const MASKS: readonly (readonly [RegExp, string])[] = [
  [/\S+-[0-9a-f]{8}\b/g, '<client>'],
  [/\b[0-9a-f]{10,64}\b/g, '<hash>'],
  [/\b\d+(?:\.\d+)? (?:ms|s|min|h|d|MB|KB)\b/g, '<quantity>'],
  [/(?:\/home\/\w+|~|\/tmp\/[\w-]+)(?=\/)/g, '<home>'],
  [/\s+/g, ' '],
];

/** The lines of an output without what differs from machine to machine: names, hashes, times, widths of columns. */
export function masked(output: string): string[] {
  return output
    .trim()
    .split('\n')
    .map((line) => MASKS.reduce((text, [found, mask]) => text.replaceAll(found, mask), line).trim());
}
