import { z } from 'zod';
import { invalidRequest } from '../http/json-body.js';
import type { DataSourceEntry, DataUpdate } from '../wire/data.js';
import type { FieldProblem } from '../wire/error-body.js';

const pointer = z.string().regex(/^(\/|$)/, 'must be a JSON pointer: empty, or starting with /');
const value = z.unknown().refine((given) => given !== undefined, 'is required');

/** RFC 6902, as far as it can be checked without the document. */
const patchOperations = z.array(
  z.discriminatedUnion('op', [
    z.object({ op: z.enum(['add', 'replace', 'test']), path: pointer, value }),
    z.object({ op: z.literal('remove'), path: pointer }),
    z.object({ op: z.enum(['move', 'copy']), path: pointer, from: pointer }),
  ]),
);

/**
 * Rules of a data update that span several fields (the shape itself is wire/data.ts). Throws `request_invalid` that names
 * every field that breaks one, so that nothing is recorded which no client could ever apply.
 */
export function checkUpdate(update: DataUpdate): void {
  const problems = update.entries.flatMap((entry, index) =>
    entryProblems(entry).map(({ field, msg }): FieldProblem => {
      return { loc: ['body', 'entries', index, ...field], msg, type: 'value_error' };
    }),
  );
  if (problems.length === 0) return;
  throw invalidRequest(problems.map((problem) => `${problem.loc.join('.')}: ${problem.msg}`).join('; '), problems);
}

interface EntryProblem {
  field: (string | number)[];
  msg: string;
}

function entryProblems(entry: DataSourceEntry): EntryProblem[] {
  const data = entry.data ?? undefined;
  if (entry.save_method === 'DELETE') {
    return data === undefined ? [] : [{ field: ['data'], msg: 'must be left out where save_method is DELETE' }];
  }
  if (data === undefined) {
    if (URL.canParse(entry.url)) return [];
    return [{ field: ['url'], msg: 'must be an absolute URL where there is no inline data' }];
  }
  if (entry.save_method !== 'PATCH') return [];
  const parsed = patchOperations.safeParse(data.value());
  if (parsed.success) return [];
  return parsed.error.issues.map((issue) => ({
    field: ['data', ...issue.path.map((part) => (typeof part === 'number' ? part : String(part)))],
    msg: `is not a JSON patch (save_method is PATCH): ${issue.message}`,
  }));
}
