/** True for a path that is left out. */
export type Ignore = (path: string) => boolean;

/**
 * SYNC_BUNDLE_IGNORE (specification versioning.bundle-ignore; opal-protocol P5.4). `/` and `/**` leave out everything;
 * `dir/**` the folder `dir`, taken literally, and all below. Any other pattern is compared with the last segments of the path, as many as it has: `*` and
 * `**` are any characters within a segment, `?` is one, `[abc]` and `[!abc]` are sets. A pattern that starts with `/`
 * matches nothing, because no path in a repository does.
 */
export function compileIgnore(patterns: readonly string[]): Ignore {
  const rules = patterns.filter((pattern) => pattern !== '').map(compilePattern);
  return (path) => rules.some((matches) => matches(path));
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
 * Chunks with a star between each two. The first place where a chunk fits is good enough, so each but the last is an atomic
 * group (a lookahead that is then repeated): the engine never goes back into it, and the time stays small for any text.
 */
function joined([first = '', ...more]: readonly string[]): string {
  const last = more.pop();
  if (last === undefined) return first;
  return `${first}${more.map((chunk, index) => `(?=(.*?${chunk}))\\${index + 1}(?:)`).join('')}.*${last}`;
}

/** One segment of a glob as an expression. A `[` with no `]` stands for itself. */
function segmentExpression(glob: string): RegExp {
  // What stands before the first star, between stars, and after the last.
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
      // A ] right after the opening belongs to the set.
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
    return /(?!)/; // a set such as [z-a], which holds no character
  }
}
