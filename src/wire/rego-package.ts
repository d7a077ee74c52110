/**
 * The package of a Rego module as path segments: `a.b["c d"]` gives `['a', 'b', 'c d']`; undefined when the text does
 * not start with a package declaration (comments and blank lines may stand before it).
 */
export function regoPackage(rego: string): string[] | undefined {
  const start = /^(?:\s+|#[^\n]*(?:\n|$)|\uFEFF)*package\s+/.exec(rego);
  if (start === null) return undefined;
  const segments: string[] = [];
  let rest = rego.slice(start[0].length);
  for (;;) {
    const part =
      segments.length === 0
        ? /^([A-Za-z_]\w*)/.exec(rest)
        : /^(?:\.([A-Za-z_]\w*)|\[\s*("(?:[^"\\\n]|\\.)*")\s*\]|\[\s*`([^`]*)`\s*\])/.exec(rest);
    if (part === null) break;
    segments.push(part[1] ?? (part[2] === undefined ? (part[3] ?? '') : unquote(part[2])));
    rest = rest.slice(part[0].length);
  }
  return segments.length === 0 ? undefined : segments;
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text.slice(1, -1); // The engine will say what is wrong with the escape.
  }
}
