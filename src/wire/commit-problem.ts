import * as z from 'zod';

/** What keeps a commit from being served, and where it is. */
export const commitProblem = z.object({
  message: z.string().describe('What is wrong, as the end of a sentence that begins with the place'),
  file: z.string().optional().describe('Path in the repository'),
  line: z.number().optional(),
});
export type CommitProblem = z.infer<typeof commitProblem>;

/** `app/rbac.rego:7 does not compile: var x is unsafe`. Pure. */
export function commitProblemText({ message, file, line }: CommitProblem): string {
  if (file === undefined) return `the policy ${message}`;
  return line === undefined ? `${file} ${message}` : `${file}:${line} ${message}`;
}

/** The first of several problems, and how many more there are. Pure. */
export function problemsText([first, ...more]: readonly CommitProblem[]): string {
  if (first === undefined) return 'nothing is known to be wrong';
  return more.length === 0 ? commitProblemText(first) : `${commitProblemText(first)} (and ${more.length} more)`;
}
