/** Whether a path is ignored. */
export type Ignore = (path: string) => boolean;

/**
 * Compiles SYNC_BUNDLE_IGNORE (specification versioning.bundle-ignore; opal-protocol P5.4). `/` and
 * `/**` match everything; `dir/**` matches the literal folder `dir` and everything below it. Any
 * other pattern matches the last segments of the path, as many as it has: `*` and `**` match any
 * characters within a segment, `?` matches one, `[abc]` and `[!abc]` are sets. Other patterns that
 * start with `/` match nothing, because no path in a repository does.
 */
export function compileIgnore(patterns: readonly string[]): Ignore {
  const rules = patterns.filter((pattern) => pattern !== '').map(compilePattern);
  return (path) => rules.some((matches) => matches(path));
}

/** As {@link compileIgnore}; returns the first pattern that ignores a path, or undefined. */
export function compileIgnoredBy(patterns: readonly string[]): (path: string) => string | undefined {
  const rules = patterns.map((pattern) => ({ pattern, matches: compileIgnore([pattern]) }));
  return (path) => rules.find((one) => one.matches(path))?.pattern;
}

function compilePattern(pattern: string): Ignore {
  if (pattern === '/' || pattern === '/**') return () => true;
  if (pattern.startsWith('/')) return () => false;
  if (pattern.endsWith('/**')) {
    const folder = segmentsOf(pattern.slice(0, -3)).join('/');
    return (path) => folder === '' || path === folder || path.startsWith(`${folder}/`);
  }
  const segments = segmentsOf(pattern).map(segmentExpression);
  if (segments.length === 0) return () => false;
  return (path) => {
    const last = path.split('/').slice(-segments.length);
    return last.length === segments.length && segments.every((segment, index) => segment.test(last[index] ?? ''));
  };
}

function segmentsOf(path: string): string[] {
  return path.split('/').filter((segment) => segment !== '' && segment !== '.');
}

/**
 * Joins chunks with a star between them. The first match of a chunk suffices, so each but the last
 * is an atomic group (a lookahead and a back-reference): the engine never backtracks into it, which
 * bounds the time for any text.
 */
function joined([first = '', ...more]: readonly string[]): string {
  const last = more.pop();
  if (last === undefined) return first;
  return `${first}${more.map((chunk, index) => `(?=(.*?${chunk}))\\${index + 1}(?:)`).join('')}.*${last}`;
}

/** Converts one segment of a glob to an expression. A `[` without `]` is literal. */
function segmentExpression(glob: string): RegExp {
  // The parts before the first star, between stars, and after the last.
  const chunks = [''];
  for (let at = 0; at < glob.length; at++) {
    const char = glob.charAt(at);
    let source = '';
    if (char === '*') {
      chunks.push('');
      continue;
    }
    if (char === '?') source += '.';
    else if (char === '[') {
      // A ] right after the opening bracket belongs to the set.
      const from = at + (glob.charAt(at + 1) === '!' ? 2 : 1);
      const end = glob.indexOf(']', from + 1);
      if (end < 0) source += '\\[';
      else {
        const set = glob.slice(from, end).replace(/[\\\]^[&~|]/g, '\\$&');
        source += `[${from === at + 2 ? '^' : ''}${set}]`;
        at = end;
      }
    } else source += char.replace(/[\\^$.|+(){}\]/]/g, '\\$&');
    chunks[chunks.length - 1] += source;
  }
  try {
    return new RegExp(`^${joined(chunks)}$`, 's');
  } catch {
    return /(?!)/; // an empty set such as [z-a]
  }
}
