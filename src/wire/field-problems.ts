import type * as z from 'zod';
import { MAX_PROBLEMS, unreadOf } from './lists.js';

/** One problem of a request body, in the form that OPAL's users know (opal-protocol P0.3). */
export interface FieldProblem {
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** Longest name and longest message that are shown: both may come from the caller. */
const MAX_NAME = 200;
const MAX_MESSAGE = 1_000;

/**
 * The problems of a failed parse as `detail` of a 422 response; `root` is `body`, `query` or
 * `path`. At most {@link MAX_PROBLEMS} are named; one more item then counts the others.
 */
export function fieldProblems(error: z.ZodError, root = 'body'): FieldProblem[] {
  let unread = 0;
  const problems: FieldProblem[] = [];
  for (const issue of error.issues) {
    const left = unreadOf(issue);
    if (left !== undefined) unread += left;
    else {
      const loc = [
        root,
        ...issue.path.map((part) => (typeof part === 'number' ? part : shortened(String(part), MAX_NAME))),
      ];
      problems.push({ loc, msg: shortened(issue.message, MAX_MESSAGE), type: `value_error.${issue.code}` });
    }
  }
  return firstProblems(problems, { unread, root });
}

/**
 * The first {@link MAX_PROBLEMS} of a list, and one item that counts the others and the elements
 * that were not read.
 */
export function firstProblems(
  problems: readonly FieldProblem[],
  { unread = 0, root = 'body' }: { unread?: number; root?: string } = {},
): FieldProblem[] {
  const others = Math.max(0, problems.length - MAX_PROBLEMS);
  const named = problems.slice(0, MAX_PROBLEMS);
  if (others + unread === 0) return named;
  const notRead = unread === 0 ? '' : `${others === 0 ? '' : ', and '}${unread} elements were not read`;
  const msg = `${others === 0 ? '' : `${others} more problems`}${notRead}`;
  return [...named, { loc: [root], msg, type: 'value_error.more' }];
}

function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}...` : text;
}
