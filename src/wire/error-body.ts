import type { z } from 'zod';

/** One problem of a request body, in the form that OPAL's users know (protocol-facts 0.3). */
export interface FieldProblem {
  loc: (string | number)[];
  msg: string;
  type: string;
}

/** The problems of a failed parse as `detail` of a 422 answer; `root` is `body`, `query` or `path`. */
export function fieldProblems(error: z.ZodError, root = 'body'): FieldProblem[] {
  return error.issues.map((issue) => ({
    loc: [root, ...issue.path.map((part) => (typeof part === 'number' ? part : String(part)))],
    msg: issue.message,
    type: `value_error.${issue.code}`,
  }));
}
