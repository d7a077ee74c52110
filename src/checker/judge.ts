import type { EngineProblem } from '../client/engine/engine.js';
import { isWithin } from '../server/bundle/directories.js';
import type { CommitProblem } from '../wire/commit-problem.js';
import { type CheckEngine, composeData, dataFileAt } from './check-engine.js';
import type { CheckJob, TextFile } from './messages.js';

/** Problems in one answer, and characters of each. */
const MOST_PROBLEMS = 5;
const MOST_CHARS = 500;

/** Compiles each set of folders; returns what OPA finds, each problem once. */
export async function judge(job: CheckJob, engine: Pick<CheckEngine, 'compile'>): Promise<CommitProblem[]> {
  const found = new Map<string, CommitProblem>();
  for (const folders of job.sets) {
    const taken = ({ path }: TextFile): boolean => folders.some((folder) => isWithin(path, folder));
    const data = job.data.filter(taken);
    const { problems } = await engine.compile(job.modules.filter(taken), composeData(data));
    for (const problem of problems.map((each) => asCommitProblem(each, data))) {
      found.set(JSON.stringify(problem), problem);
    }
  }
  return [...found.values()].slice(0, MOST_PROBLEMS);
}

/** A conflict of data with a rule is named with the data file, if the rule's is not known. */
function asCommitProblem(
  { message, file, row, conflictPath }: EngineProblem,
  data: readonly TextFile[],
): CommitProblem {
  const source = conflictPath === undefined ? undefined : dataFileAt(data, conflictPath);
  const which = source === undefined || file === undefined ? '' : ` (its value is in ${source})`;
  const place = file ?? source;
  return {
    message: `does not compile: ${message.slice(0, MOST_CHARS)}${which}`,
    ...(place !== undefined && { file: place }),
    ...(file !== undefined && row !== undefined && { line: row }),
  };
}
