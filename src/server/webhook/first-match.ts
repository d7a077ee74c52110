import { SyncError } from '../../lib/errors.js';

/** Finds the wanted part of a text; undefined where nothing matches. */
export type FirstMatch = (text: string) => string | undefined;

/** A fixed text, then everything: the form of every preset. */
const PREFIX_THEN_ALL = /^([\w\-=:/ ]*)\(\.\*\)$/;

/**
 * Makes the function that applies an expression as `re.findall(...)[0]` of OPAL does (protocol-facts 2.4): the first match
 * anywhere, of that the first group where there is one. RE2 semantics, so the time is linear in the text whatever the
 * expression is. The RE2 program costs 8 MB and is loaded only for an expression that needs it. Rejects with
 * `config_invalid`: not a regular expression, or one with look-around or back-references, which RE2 has not.
 */
export async function createFirstMatch(expression: string): Promise<FirstMatch> {
  const prefix = PREFIX_THEN_ALL.exec(expression)?.[1];
  return prefix === undefined ? re2FirstMatch(expression) : prefixFirstMatch(prefix);
}

/** `prefix(.*)`: what follows the first occurrence, to the end of its line. */
function prefixFirstMatch(prefix: string): FirstMatch {
  return (text) => {
    const at = text.indexOf(prefix);
    return at < 0 ? undefined : text.slice(at + prefix.length).split('\n', 1)[0];
  };
}

/** Any expression. Exported so that a test can compare the two ways. */
export async function re2FirstMatch(expression: string): Promise<FirstMatch> {
  const { RE2JS } = await import('re2js');
  let pattern: ReturnType<typeof RE2JS.compile>;
  try {
    pattern = RE2JS.compile(expression);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SyncError(
      'config_invalid',
      `SYNC_POLICY_REPO_WEBHOOK_PARAMS at secret_parsing_regex: ${why} (RE2 syntax is due)`,
      { cause },
    );
  }
  return (text) => {
    const matcher = pattern.matcher(text);
    if (!matcher.find()) return undefined;
    return matcher.group(matcher.groupCount() > 0 ? 1 : 0) ?? undefined;
  };
}
