/** White space and comments, which may stand before and after the keyword. Sticky patterns keep the scan linear. */
const SPACE = /(?:[ \t\r\n]|#[^\n]*(?:\n|$))*/y;
const KEYWORD = /package(?=[ \t\r\n#])/y;
const FIRST_PART = /[A-Za-z_][A-Za-z0-9_]*/y;
/** `.name`, `["any text"]` or a raw string in brackets. */
const NEXT_PART = /\.[A-Za-z_][A-Za-z0-9_]*|\[\s*(?:"(?:[^"\\\n]|\\.)*"|`[^`]*`)\s*\]/y;

/** A package declaration: its parts as the text has them, none where there is no package that OPA would read, and where it begins. */
interface Declaration {
  readonly parts: readonly string[];
  readonly start: number;
}

function declarationOf(rego: string): Declaration {
  let at = rego.startsWith('\uFEFF') ? 1 : 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(rego)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  take(SPACE);
  const start = at;
  if (take(KEYWORD) === undefined) return { parts: [], start };
  take(SPACE);
  const first = take(FIRST_PART);
  if (first === undefined) return { parts: [], start };
  const parts = [first];
  for (let part = take(NEXT_PART); part !== undefined; part = take(NEXT_PART)) parts.push(part);
  return { parts, start };
}

/**
 * The package of a Rego module as its text has it (`a.b["c-d"]`), empty where there is none that OPA would read. Unlike
 * OPAL's it knows comments, underscores, brackets and indentation (opal-protocol P5.3, P10.4).
 */
export function packageName(rego: string): string {
  return declarationOf(rego).parts.join('');
}

/** The package as path segments: `a.b["c d"]` gives `['a', 'b', 'c d']`; undefined where there is none. */
export function regoPackage(rego: string): string[] | undefined {
  const { parts } = declarationOf(rego);
  return parts.length === 0 ? undefined : parts.map(segmentOf);
}

/** The line of the package declaration, 1 for the first. */
export function packageLine(rego: string): number {
  return rego.slice(0, declarationOf(rego).start).split('\n').length;
}

function segmentOf(part: string): string {
  if (part.startsWith('.')) return part.slice(1);
  if (!part.startsWith('[')) return part;
  const quoted = part.slice(1, -1).trim();
  if (quoted.startsWith('`')) return quoted.slice(1, -1);
  try {
    return String(JSON.parse(quoted));
  } catch {
    return quoted.slice(1, -1); // The engine will say what is wrong with the escape.
  }
}
