/** The names of the tests in a source file, as far as its text tells them. */
export interface TestNames {
  /** True where the file has a test of this name; a name that is made of parts fits where these parts stand in the file. */
  has(name: string): boolean;
}

/** A name as it stands in the source: its fixed parts, between which something is filled in. */
type NameParts = readonly string[];

const QUOTES = new Set(["'", '"', '`']);

/** Reads the calls of `test` and `it` in the text of a TypeScript file. */
export function testNames(source: string): TestNames {
  const names: NameParts[] = [];
  let hasComputed = false;
  for (const { index, 0: call } of source.matchAll(/(?<![.\w])(?:test|it)\(\s*/g)) {
    const at = index + call.length;
    if (QUOTES.has(source[at] ?? '')) names.push(literalParts(source, at));
    else hasComputed = true;
  }
  const patterns = names.map((parts) => new RegExp(`^${parts.map(escaped).join('(.+)')}$`, 's'));
  return {
    has: (name) => {
      const isNamed = patterns.some((pattern) => {
        const filled = pattern.exec(name)?.slice(1);
        return filled?.every((text) => wordsOf(text).every((word) => source.includes(word))) ?? false;
      });
      return isNamed || (hasComputed && isLiteral(name, source));
    },
  };
}

/** The fixed parts of the string that begins at `start`; a template has one more than it has holes. */
function literalParts(source: string, start: number): NameParts {
  const quote = source[start];
  const parts = [''];
  for (let at = start + 1; at < source.length && source[at] !== quote; at++) {
    if (quote === '`' && source.startsWith('${', at)) {
      at = holeEnd(source, at + 1);
      parts.push('');
      continue;
    }
    if (source[at] === '\\') at++;
    parts.push((parts.pop() ?? '') + (source[at] ?? ''));
  }
  return parts;
}

/** Where the hole ends whose opening brace is at `start`. */
function holeEnd(source: string, start: number): number {
  let depth = 0;
  for (let at = start; at < source.length; at++) {
    if (source[at] === '{') depth++;
    else if (source[at] === '}' && --depth === 0) return at;
  }
  return source.length;
}

function isLiteral(name: string, source: string): boolean {
  const forms = [`'${name.replaceAll("'", "\\'")}'`, `"${name.replaceAll('"', '\\"')}"`];
  return forms.some((form) => source.includes(form));
}

function wordsOf(text: string): string[] {
  return text.match(/[\p{L}\p{N}]+/gu) ?? [];
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
