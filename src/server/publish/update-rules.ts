import * as z from 'zod';
import { invalidRequest } from '../../http/json-body.js';
import { SyncError } from '../../lib/errors.js';
import { depthProblem } from '../../lib/json/json-check.js';
import { jsonKind } from '../../lib/json/json-text.js';
import {
  type DataSourceEntry,
  type DataUpdate,
  dataSourceEntry,
  type PeerEntry,
  type ServerDataSources,
} from '../../wire/data.js';
import { isPointer, lengthProblem, MAX_POINTER_SEGMENTS, parseDocPath } from '../../wire/doc-path.js';
import { type FieldProblem, fieldProblems, firstProblems } from '../../wire/field-problems.js';
import { depthProblems, parsePatch, patchShape } from '../../wire/json-patch.js';
import { list, MAX_PROBLEMS } from '../../wire/lists.js';

/** Whether `-` (append) is accepted depends on the document: `log/patch-appends.ts`. */
const pointer = z
  .string()
  .refine((text) => lengthProblem(text) === undefined, {
    error: ({ input }) => lengthProblem(String(input)),
    abort: true,
  })
  .regex(/^(\/([^~]|~[01])*)?$/, { error: 'must be a JSON pointer: empty, or starting with /', abort: true })
  .refine(isPointer, 'must have no segment . or .., and no half of a surrogate pair');
const source = pointer.refine((text) => !text.endsWith('/-'), 'must name what is there: nothing is at `-`');
const value = z.unknown().refine((given) => given !== undefined, 'is required');

/** Maximum operations of one patch. */
const MAX_OPERATIONS = 100_000;

/** RFC 6902, as far as it can be checked without the document. */
const patchOperations = list(
  z.discriminatedUnion('op', [
    z.object({ op: z.enum(['add', 'replace', 'test']), path: pointer, value }),
    z.object({ op: z.literal('remove'), path: pointer }),
    z.object({ op: z.enum(['move', 'copy']), path: pointer, from: source }),
  ]),
  { max: MAX_OPERATIONS },
);

/**
 * Checks the rules of a data update that span several fields (wire/data.ts declares its shape), so
 * that no update is recorded that no client can apply. Throws `request_invalid` with every field
 * that breaks a rule.
 */
export function checkUpdate(update: DataUpdate): void {
  const problems: FieldProblem[] = [];
  let unread = 0;
  for (const [index, entry] of update.entries.entries()) {
    if (problems.length >= MAX_PROBLEMS) {
      unread = update.entries.length - index;
      break;
    }
    for (const { field, msg } of entryProblems(entry)) {
      problems.push({ loc: ['body', 'entries', index, ...field], msg, type: 'value_error' });
    }
  }
  for (const { field, msg } of callbackProblems(update.callback?.callbacks ?? [])) {
    problems.push({ loc: ['body', 'callback', 'callbacks', ...field], msg, type: 'value_error' });
  }
  if (problems.length === 0) return;
  throw invalidRequest(firstProblems(problems, { unread }));
}

/** Checks configured entries as those of an update. Throws `config_invalid` with every fault. */
export function checkBaseEntries(sources: ServerDataSources | undefined): void {
  const entries = sources !== undefined && 'config' in sources ? sources.config.entries : [];
  const problems = entries.flatMap((entry, index) =>
    [...topicProblems(entry), ...entryProblems(entry)].map(
      ({ field, msg }) => `config.entries.${[index, ...field].join('.')} ${msg}`,
    ),
  );
  if (problems.length === 0) return;
  const more = problems.length - MAX_PROBLEMS;
  const text = problems.slice(0, MAX_PROBLEMS).join('; ');
  throw new SyncError('config_invalid', `SYNC_DATA_CONFIG_SOURCES: ${text}${more > 0 ? `; and ${more} more` : ''}`);
}

/** Throws `inline_data_too_large` if the inline data of an update exceeds the limit. */
export function checkInlineData(update: DataUpdate, limitBytes: number): void {
  let bytes = 0;
  for (const { data } of update.entries) bytes += data ? Buffer.byteLength(data.text) : 0;
  if (bytes <= limitBytes) return;
  throw new SyncError(
    'inline_data_too_large',
    `the inline data of an update must have at most ${limitBytes} bytes, not ${bytes}`,
  );
}

interface EntryProblem {
  field: (string | number)[];
  msg: string;
}

/** Limits of an update: topics and segments occupy memory on every server and client. */
const LIMITS = {
  topicChars: 512,
  topicLevels: 32,
  pathChars: 4096,
  pathSegments: 64,
  callbackChars: 2048,
  /** Far below the depth at which printing overflows the stack. */
  configLevels: 64,
};

/** Of topics to which nobody can subscribe, which the schema of an update has found already. */
function topicProblems({ topics }: PeerEntry): EntryProblem[] {
  const { error } = dataSourceEntry.shape.topics.safeParse(topics);
  return (error?.issues ?? []).map(({ path, message }) => ({ field: ['topics', ...path.map(String)], msg: message }));
}

function limitProblems(entry: DataSourceEntry): EntryProblem[] {
  const problems: EntryProblem[] = [];
  for (const [index, topic] of entry.topics.entries()) {
    const isTooLong = topic.length > LIMITS.topicChars || topic.split('/').length > LIMITS.topicLevels;
    const msg = `must have at most ${LIMITS.topicChars} characters and ${LIMITS.topicLevels} levels`;
    if (isTooLong) problems.push({ field: ['topics', index], msg });
  }
  const path = entry.dst_path;
  if (path.length > LIMITS.pathChars || parseDocPath(path).length > LIMITS.pathSegments) {
    const msg = `must have at most ${LIMITS.pathChars} characters and ${LIMITS.pathSegments} segments`;
    problems.push({ field: ['dst_path'], msg });
  }
  if (isDeeperThan(entry.config, LIMITS.configLevels)) problems.push({ field: ['config'], msg: TOO_DEEP });
  return problems;
}

const TOO_DEEP = `must be nested at most ${LIMITS.configLevels} levels deep`;

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isDeeperThan(member, levels - 1));
}

function callbackProblems(items: NonNullable<DataUpdate['callback']>['callbacks']): EntryProblem[] {
  return items.flatMap((item, index): EntryProblem[] => {
    const url = typeof item === 'string' ? item : item[0];
    const isCallable = url.length <= LIMITS.callbackChars && URL.canParse(url) && /^https?:/i.test(url);
    if (typeof item !== 'string' && isDeeperThan(item[1], LIMITS.configLevels))
      return [{ field: [index, 1], msg: TOO_DEEP }];
    if (isCallable) return [];
    const field = typeof item === 'string' ? [index] : [index, 0];
    return [{ field, msg: `must be an http or https URL of at most ${LIMITS.callbackChars} characters` }];
  });
}

function entryProblems(entry: DataSourceEntry): EntryProblem[] {
  const beyond = limitProblems(entry);
  if (beyond.length > 0) return beyond;
  const data = entry.data ?? undefined;
  if (entry.save_method === 'DELETE') {
    return data === undefined ? [] : [{ field: ['data'], msg: 'must be left out where save_method is DELETE' }];
  }
  if (data === undefined) {
    if (URL.canParse(entry.url)) return [];
    return [{ field: ['url'], msg: 'must be an absolute URL where there is no inline data' }];
  }
  const above = parseDocPath(entry.dst_path).length;
  if (entry.save_method !== 'PATCH') {
    const fits = above > 0 || jsonKind(data.text) === 'object';
    if (!fits) return [{ field: ['data'], msg: 'must be an object where dst_path is the root' }];
    const tooDeep = depthProblem(data.text, above);
    return tooDeep === undefined ? [] : [{ field: ['data'], msg: tooDeep }];
  }
  const parsed = patchOperations.safeParse(patchShape(data.text));
  if (parsed.success) return deepValues(data.text, above);
  return fieldProblems(parsed.error, 'data').map(({ loc, msg }) => ({
    field: loc,
    msg: `is not a JSON patch (save_method is PATCH): ${msg}`,
  }));
}

/** Patch values that would be nested too deep. Most patches are too short for one. */
function deepValues(patch: string, above: number): EntryProblem[] {
  if (depthProblem(patch, above + MAX_POINTER_SEGMENTS) === undefined) return [];
  return depthProblems(parsePatch(patch), above).map(({ index, problem }) => ({
    field: ['data', index, 'value'],
    msg: problem,
  }));
}
