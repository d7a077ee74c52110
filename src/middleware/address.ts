/** The address of a request as a router has it. */
export interface RoutedAddress {
  /**
   * What mount paths have matched, as the caller spelled it; how they are declared is not known.
   */
  readonly mount: string;
  /** The target of the request, below the mount path. */
  readonly target: string;
  /** The route that matched the target, as it is declared; null: not known. */
  readonly route: string | null;
}

/** How a router reads an address. */
export interface RouterWays {
  /**
   * Whether `/ADMIN` may be `/admin`, and of which letters: `ascii`, or `all` that `toLowerCase`
   * changes.
   */
  readonly ignoresCase: 'no' | 'ascii' | 'all';
  /**
   * Whether it compares before it decodes: to it `/%61dmin` is no `/admin`, but what another route
   * takes for `admin`.
   */
  readonly comparesEncoded: boolean;
  /** Whether `//` is `/`. */
  readonly mergesSlashes: boolean;
  /** Whether `;` ends the path, as `?` does. */
  readonly endsAtSemicolon: boolean;
}

/** One reading, or why there is more than one. */
type Reading<T> = { readonly value: T; readonly ambiguous?: undefined } | { readonly ambiguous: string };

const AMBIGUOUS = {
  start: 'it is neither a path nor http://host/path',
  character: 'it has a character that no URL has',
  empty: 'it has an empty segment',
  dots: 'it has a segment that is . or ..',
  encoding: 'it has a percent-encoding that stands for no text',
  slash: 'it has an encoded slash or backslash where that may be a separator',
  needless: 'it encodes a letter, a digit, or one of - . _ ~',
  upperCase: 'it has upper-case letters where a router may ignore case',
  route: 'it is no address of the route that answers',
};

/**
 * What a segment has matched: text of the route, a parameter of its own, the wildcard at the end,
 * or something that is not known.
 */
type Declared =
  | { readonly part: 'text'; readonly text: string }
  | { readonly part: 'parameter' | 'wildcard' | 'unknown' };

const UNKNOWN: Declared = { part: 'unknown' };

/**
 * Where a segment says the same to all its readers, though it has this. Text of a route is told as
 * the route has it.
 */
const CLEAR: Readonly<Record<Declared['part'], Readonly<Record<'slash' | 'upperCase', boolean>>>> = {
  text: { slash: false, upperCase: true },
  parameter: { slash: true, upperCase: true },
  wildcard: { slash: false, upperCase: true },
  // A mount path, a pattern, or whatever comes after the guard: other routes, which may ignore
  // case, and files, whose case counts.
  unknown: { slash: false, upperCase: false },
};

/**
 * The path that a router and all that reads the address behind it agree about: decoded segments,
 * with the spelling of the route where it has text. A slash at the end is no segment.
 */
export function readAddress({ mount, target, route }: RoutedAddress, ways: RouterWays): Reading<readonly string[]> {
  const path = pathOf(target, ways);
  if (path === undefined) return { ambiguous: AMBIGUOUS.start };
  if (!isOfUrl(mount) || !isOfUrl(path)) return { ambiguous: AMBIGUOUS.character };
  const mounted = segmentsOf(mount, ways);
  const routed = segmentsOf(path, ways);
  if (mounted.includes('') || routed.includes('')) return { ambiguous: AMBIGUOUS.empty };
  const declared = route === null ? undefined : declaredOf(route);
  const parts = declared === undefined ? routed.map(() => UNKNOWN) : aligned(declared, routed.length);
  if (parts === undefined) return { ambiguous: AMBIGUOUS.route };
  const value: string[] = [];
  for (const [index, segment] of [...mounted, ...routed].entries()) {
    const reading = readSegment(segment, parts[index - mounted.length] ?? UNKNOWN, ways);
    if (reading.ambiguous !== undefined) return reading;
    value.push(reading.value);
  }
  return { value };
}

function readSegment(segment: string, declared: Declared, ways: RouterWays): Reading<string> {
  const value = decoded(segment);
  if (value === undefined) return { ambiguous: AMBIGUOUS.encoding };
  if (some(value, (code) => code < 0x20 || code === 0x7f)) return { ambiguous: AMBIGUOUS.character };
  const names = value.replaceAll('\\', '/').split('/');
  if (names.includes('.') || names.includes('..')) return { ambiguous: AMBIGUOUS.dots };
  const clear = CLEAR[declared.part];
  if (names.length > 1 && !clear.slash) return { ambiguous: AMBIGUOUS.slash };
  if (ways.comparesEncoded && hasNeedless(segment)) return { ambiguous: AMBIGUOUS.needless };
  if (hasIgnoredCase(value, ways) && !clear.upperCase) return { ambiguous: AMBIGUOUS.upperCase };
  if (declared.part !== 'text') return { value };
  const isOfRoute = value.toLowerCase() === declared.text.toLowerCase();
  return isOfRoute ? { value: declared.text } : { ambiguous: AMBIGUOUS.route };
}

/**
 * The path of a target, without scheme, host and query; undefined where readers would not agree
 * about where it begins.
 */
function pathOf(target: string, { endsAtSemicolon }: RouterWays): string | undefined {
  const path = target.startsWith('/') ? target : pathOfUrl(target);
  const ends = ['?', ...(endsAtSemicolon ? [';'] : [])].map((end) => path?.indexOf(end) ?? -1);
  return path?.slice(0, Math.min(path.length, ...ends.filter((at) => at !== -1)));
}

function pathOfUrl(target: string): string | undefined {
  const at = target.indexOf('://');
  const start = at + '://'.length;
  if (at === -1 || !['http', 'https'].includes(target.slice(0, at).toLowerCase())) return undefined;
  let end = start;
  while (end < target.length && isOfHost(target.charCodeAt(end))) end += 1;
  const rest = target.slice(end);
  if (end === start || !['/', '?', ''].includes(rest.slice(0, 1))) return undefined;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

function segmentsOf(path: string, { mergesSlashes }: RouterWays): string[] {
  const segments = path.split('/').slice(1);
  if (segments.at(-1) === '') segments.pop();
  return mergesSlashes ? segments.filter((segment) => segment !== '') : segments;
}

/**
 * The parts of a route; undefined where it has other patterns than whole parameters and a wildcard
 * at the end.
 */
function declaredOf(route: string): readonly Declared[] | undefined {
  const segments = (route.startsWith('/') ? route.slice(1) : route).split('/');
  if (segments.at(-1) === '') segments.pop();
  const parts = segments.map((segment, index) => partOf(segment, index === segments.length - 1));
  return parts.every((part) => part !== undefined) ? parts : undefined;
}

/** As the routers write them: `:id`, and `*`, `*name` or `{*name}`. */
function partOf(segment: string, isLast: boolean): Declared | undefined {
  if (segment.startsWith(':') && isWord(segment.slice(1))) return { part: 'parameter' };
  const inner = segment.startsWith('{') && segment.endsWith('}') ? segment.slice(1, -1) : segment;
  if (isLast && inner.startsWith('*') && (inner === '*' || isWord(inner.slice(1)))) return { part: 'wildcard' };
  if (some(segment, (code) => PATTERN.has(String.fromCharCode(code)))) return undefined;
  const text = decoded(segment);
  return text === undefined || text === '' ? undefined : { part: 'text', text };
}

const PATTERN: ReadonlySet<string> = new Set('*?+:()[]{}|^$!"\\');

/** What each of `count` segments has matched; undefined where a parameter has matched nothing. */
function aligned(parts: readonly Declared[], count: number): readonly Declared[] | undefined {
  const last = parts.at(-1);
  if (last?.part !== 'wildcard') return parts.length === count ? parts : undefined;
  const missing = count - (parts.length - 1);
  return missing < 0 ? undefined : [...parts.slice(0, -1), ...Array<Declared>(missing).fill(last)];
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined; // documented above
  }
}

function hasIgnoredCase(text: string, { ignoresCase }: RouterWays): boolean {
  if (ignoresCase === 'all') return text !== text.toLowerCase();
  return ignoresCase === 'ascii' && some(text, (code) => code >= 0x41 && code <= 0x5a);
}

function hasNeedless(segment: string): boolean {
  for (let at = segment.indexOf('%'); at !== -1; at = segment.indexOf('%', at + 1)) {
    const code = Number.parseInt(segment.slice(at + 1, at + 3), 16);
    if (isAlphanumeric(code) || '-._~'.includes(String.fromCharCode(code))) return true;
  }
  return false;
}

/**
 * Whether a path has only what may stand in one as it is, without what some take for a separator or
 * the end.
 */
function isOfUrl(path: string): boolean {
  return !some(path, (code) => code <= 0x20 || code >= 0x7f || code === 0x23 || code === 0x5c);
}

function isOfHost(code: number): boolean {
  return isAlphanumeric(code) || '-._:[]'.includes(String.fromCharCode(code));
}

function isWord(text: string): boolean {
  return text !== '' && !some(text, (code) => !isAlphanumeric(code) && code !== 0x5f);
}

function isAlphanumeric(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
}

function some(text: string, holds: (code: number) => boolean): boolean {
  for (let at = 0; at < text.length; at += 1) if (holds(text.charCodeAt(at))) return true;
  return false;
}
