import { ERROR_CODES, errorCode, errorText } from '../../lib/errors.js';
import { EXIT, ExitError } from './run-program.js';
import { counted, printable, wrapped } from './text.js';

/**
 * One result of `policysync check` or `policysync doctor`. `id` is a stable name in snake_case of
 * what was checked, `subject` the thing for people (a file, a setting, an address). `remedy` is
 * null for what is in order. Texts never have secrets.
 */
export interface Finding {
  readonly level: 'ok' | 'warning' | 'error';
  readonly id: string;
  readonly subject: string;
  readonly message: string;
  readonly remedy: string | null;
  readonly file?: string;
  readonly line?: number;
}

/** Where in a file a finding is. */
type Place = Pick<Finding, 'file' | 'line'>;

/** Something that is in order. */
export function okFinding(id: string, subject: string, message: string, place: Place = {}): Finding {
  return { level: 'ok', id, subject, message, remedy: null, ...place };
}

/** Something that works, and that most people would not want. */
export function warningFinding(
  id: string,
  subject: string,
  message: string,
  remedy: string,
  place: Place = {},
): Finding {
  return { level: 'warning', id, subject, message, remedy, ...place };
}

/** Something that does not work. */
export function errorFinding(id: string, subject: string, message: string, remedy: string, place: Place = {}): Finding {
  return { level: 'error', id, subject, message, remedy, ...place };
}

/** How findings are shown and judged: the options of a command. */
export interface FindingsOptions {
  /** One JSON document instead of lines. */
  readonly json?: boolean | undefined;
  /** Warnings fail, too. */
  readonly strict?: boolean | undefined;
}

/** Where to print, and what it can show; as process.stdout. */
export interface FindingsOutput {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** 0; 1 with an error, and with `strict` also with a warning. */
export function exitCodeOf(findings: readonly Finding[], { strict }: FindingsOptions = {}): number {
  const fails = findings.some(({ level }) => level === 'error' || (strict === true && level === 'warning'));
  return fails ? EXIT.failed : EXIT.ok;
}

/**
 * Prints the findings: lines for people, or `{"ok":...,"errors":n,"warnings":n,"findings":[...]}`
 * with the members of `more`. Then throws {@link ExitError} `checks_failed` if they fail (see
 * {@link exitCodeOf}).
 */
export function reportFindings(
  findings: readonly Finding[],
  options: FindingsOptions,
  { out, env, more = {} }: { out: FindingsOutput; env: NodeJS.ProcessEnv; more?: Readonly<Record<string, unknown>> },
): void {
  const exitCode = exitCodeOf(findings, options);
  const counts = countsOf(findings);
  if (options.json === true) {
    const document = { ok: exitCode === EXIT.ok, errors: counts.error, warnings: counts.warning, ...more, findings };
    out.write(`${JSON.stringify(document, null, 2)}\n`);
  } else {
    out.write(`${findingLines(findings, viewOf(out, env)).join('\n')}\n`);
  }
  // The lines end with the sum, and have a remedy each.
  const isQuiet = options.json !== true;
  if (exitCode !== EXIT.ok) throw new ExitError('checks_failed', summaryOf(counts), exitCode, { isQuiet });
}

/**
 * The lines of a report: a mark, subject and message, then the remedy; at the end how many there
 * are of each level.
 */
export function findingLines(findings: readonly Finding[], view: { columns: number; colour: boolean }): string[] {
  const lines = findings.flatMap((finding, index) => {
    // A remedy that the next finding has, too, is shown once.
    const isSame = finding.remedy === findings[index + 1]?.remedy;
    return linesOf(isSame ? { ...finding, remedy: null } : finding, view);
  });
  return [...lines, '', summaryOf(countsOf(findings))];
}

/** The finding for a check that failed with an error. Default remedy: that of the error's code. */
export function failedFinding(
  id: string,
  subject: string,
  error: unknown,
  remedy: string = ERROR_CODES[errorCode(error)].remedy,
): Finding {
  return errorFinding(id, subject, printable(errorText(error)), remedy);
}

const MARKS = { ok: '✓', warning: '!', error: '✗' } as const;
/** Green, yellow, red (ECMA-48). */
const COLOURS = { ok: 32, warning: 33, error: 31 } as const;
const INDENT = '  ';

function linesOf({ level, subject, message, remedy, file, line }: Finding, view: Parameters<typeof findingLines>[1]) {
  const place = file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}`}: `;
  const mark = view.colour ? `\u001b[${COLOURS[level]}m${MARKS[level]}\u001b[39m` : MARKS[level];
  const [first = '', ...rest] = wrapped(printable(`${subject}: ${place}${message}`), view.columns - INDENT.length, '');
  return [
    `${mark} ${first}`,
    ...rest.map((text) => `${INDENT}${text}`),
    ...(remedy === null ? [] : wrapped(printable(remedy), view.columns, `${INDENT}${INDENT}`, `${INDENT}${INDENT}`)),
  ];
}

/** Width and colours of an output: 80 columns where it is no terminal, and then never colours. */
function viewOf(out: FindingsOutput, env: NodeJS.ProcessEnv): { columns: number; colour: boolean } {
  const isTerminal = out.isTTY === true;
  const columns = isTerminal ? Math.min(120, Math.max(40, out.columns ?? 80)) : 80;
  return { columns, colour: isTerminal && (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb' };
}

function countsOf(findings: readonly Finding[]): Record<Finding['level'], number> {
  const counts = { ok: 0, warning: 0, error: 0 };
  for (const { level } of findings) counts[level] += 1;
  return counts;
}

function summaryOf({ ok, warning, error }: Record<Finding['level'], number>): string {
  return `${counted(error, 'error')}, ${counted(warning, 'warning')}, ${ok} in order`;
}
