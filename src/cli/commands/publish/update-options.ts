import { errorText } from '../../../lib/errors.js';
import { JsonText, printJson } from '../../../lib/json/json-text.js';
import { dataUpdate, entryConfig } from '../../../wire/data.js';
import { fieldProblems } from '../../../wire/field-problems.js';
import { parseKeepingData } from '../../../wire/inline-data.js';
import { UsageError } from '../../kit/run-program.js';

/** The default topic of clients. */
export const DEFAULT_TOPIC = 'policy_data';

/** The options of `publish` for the update, as given on the command line. */
export interface UpdateOptions {
  srcUrl?: string;
  srcConfig?: string;
  data?: string;
  /** Name of the data in errors. Default: the option. */
  dataName?: string;
  topic?: string[];
  dstPath?: string;
  saveMethod: string;
  reason?: string;
  id?: string;
}

/** An update to send, with a summary to print. */
export interface UpdateToPublish {
  /** The request body. */
  text: string;
  entries: readonly EntrySummary[];
  reason: string;
}

/** An entry without its secrets. */
export interface EntrySummary {
  url: string;
  topics: readonly string[];
  dst_path: string;
  save_method: string;
  /** Bytes of the inline data; undefined if the data is at the URL. */
  inlineBytes: number | undefined;
}

/**
 * Builds the update from the options, or from `entriesText` (the JSON array of an entries file).
 * Keeps data as written. Throws a {@link UsageError} that names the option or the field.
 */
export function buildUpdate(options: UpdateOptions, entriesText?: string): UpdateToPublish {
  const entries = entriesText === undefined ? [entryOfOptions(options)] : entriesOfText(options, entriesText);
  const { reason = '' } = options;
  const update = { ...(options.id === undefined ? {} : { id: options.id }), entries, reason };
  const parsed = dataUpdate.safeParse(update);
  if (!parsed.success) {
    const problems = fieldProblems(parsed.error, 'update').map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`);
    throw new UsageError(`the update is not valid:\n  ${problems.join('\n  ')}`);
  }
  return {
    // Not the parsed form, which lacks fields that only a newer server knows.
    text: printJson(update),
    reason,
    entries: parsed.data.entries.map((entry) => ({
      url: entry.url,
      topics: entry.topics,
      dst_path: entry.dst_path,
      save_method: entry.save_method,
      inlineBytes: entry.data ? Buffer.byteLength(entry.data.text) : undefined,
    })),
  };
}

function entryOfOptions(options: UpdateOptions): object {
  const { srcUrl, data, saveMethod, dstPath, topic = [DEFAULT_TOPIC] } = options;
  if (srcUrl === undefined && data === undefined && saveMethod !== 'DELETE') {
    throw new UsageError('give the data to publish: --src-url, --data or --entries-file');
  }
  if (srcUrl !== undefined && data !== undefined) {
    throw new UsageError('give --src-url or --data, not both: clients fetch from the URL, or take the data as it is');
  }
  if (saveMethod === 'DELETE' && data !== undefined) throw new UsageError('--save-method DELETE takes no --data');
  if (dstPath === undefined) throw new UsageError('give the path of the data with --dst-path (/ is the whole tree)');
  return {
    url: srcUrl ?? '',
    config: options.srcConfig === undefined ? undefined : readSrcConfig(options.srcConfig),
    topics: topic,
    dst_path: dstPath,
    save_method: saveMethod,
    data: data === undefined ? undefined : readJson(options.dataName ?? '--data', data),
  };
}

function entriesOfText(options: UpdateOptions, text: string): unknown[] {
  const extra = [
    ...(options.srcUrl === undefined ? [] : ['--src-url']),
    ...(options.srcConfig === undefined ? [] : ['--src-config']),
    ...(options.data === undefined ? [] : ['--data']),
    ...(options.dstPath === undefined ? [] : ['--dst-path']),
    ...(options.topic === undefined ? [] : ['--topic']),
  ];
  if (extra.length > 0)
    throw new UsageError(`--entries-file has whole entries: it cannot be combined with ${extra.join(', ')}`);
  const array = readJson('--entries-file', text);
  const { entries } = parseKeepingData(printJson({ entries: array })) as { entries: unknown };
  if (!Array.isArray(entries)) throw new UsageError('--entries-file must hold a JSON array of entries');
  return entries;
}

function readSrcConfig(text: string): unknown {
  const parsed = entryConfig.safeParse(readJson('--src-config', text).value());
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'the top'}: ${issue.message}`);
  throw new UsageError(`--src-config is not valid: ${problems.join('; ')}`);
}

function readJson(option: string, text: string): JsonText {
  try {
    return JsonText.parse(text);
  } catch (error) {
    throw new UsageError(`${option} is not JSON: ${errorText(error)}`);
  }
}
