import { members } from '../../src/lib/json/json-text.js';
import type { ConformanceCase } from './cases.js';

/** Before the number that tells the roots of one case from those of the others. */
const MARK = '_case';
/** The number of a case, where an answer names one of its roots or modules. */
export const CASE_NUMBER = /_case\d+\b|\bcase\d+\//g;

const DATA_ROOT = /(?<![\w.])data\.([A-Za-z_]\w*)/g;
/** What shows a case the names of others, or its own as they are written. */
const READS_NAMES = /(?<![\w.])data\b(?!\.[A-Za-z_])|\brego\.metadata\b/;
const PACKAGE = /^([ \t]*package[ \t]+[A-Za-z_]\w*)/m;
const BARE_IMPORT = /^([ \t]*import[ \t]+data\.(\w+))[ \t]*$/gm;

/**
 * The same case among others in one policy: all names right below `data`, of its packages and of its documents, get a number. Undefined
 * for a case that has to stay alone: it sees more than its own, or it is refused when it is loaded, and the others with it.
 */
export function withOwnRoots(one: ConformanceCase, number: number): ConformanceCase | undefined {
  const { modules, query, data, strictError } = one;
  const isRefused = (one.wantError !== undefined || one.wantErrorCode !== undefined) && strictError !== true;
  if (isRefused || [...modules, query].some((text) => READS_NAMES.test(text))) return undefined;
  if (!modules.every((text) => PACKAGE.test(text))) return undefined;
  const own = (text: string): string => text.replace(DATA_ROOT, `data.$1${MARK}${number}`);
  return {
    ...one,
    modules: modules.map((text) => own(text.replace(BARE_IMPORT, '$1 as $2').replace(PACKAGE, `$1${MARK}${number}`))),
    query: own(query),
    ...(data === undefined ? {} : { data: ownMembers(data, number) }),
  };
}

function ownMembers(documents: string, number: number): string {
  const list = [...members(documents)].map(([name, text]) => `${JSON.stringify(`${name}${MARK}${number}`)}:${text}`);
  return `{${list.join()}}`;
}
