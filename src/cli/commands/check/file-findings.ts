import { directoryOf, lastSegment } from '../../../server/policy/bundle/directories.js';
import type { FileWarning } from '../../../server/policy/bundle/load-order.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { counted } from '../../kit/text.js';
import type { BundleFiles, RejectedFile } from './bundle-files.js';

/** Most findings of one kind: a repository of thousands of links is one mistake. */
const SHOWN = 20;
/** Most names in one finding. */
const NAMED = 3;
const REMEDIES: Readonly<Record<FileWarning['kind'], string>> = {
  manifest_line: 'Correct the line, or remove it: it has no effect. A line is one path, relative to the manifest.',
  data_replaced: 'Remove one of the two files, or move it to a folder of its own: each folder is one document.',
  yaml_data: 'Convert it to data.json, so that clients get the document.',
};

/**
 * What the files themselves show: those that are rejected, without effect, ignored or left out.
 * `target`: where they are. Pure.
 */
export function fileFindings(
  files: BundleFiles,
  { links, target }: { readonly links: readonly string[]; readonly target: string },
): Finding[] {
  const { snapshot, directories } = files;
  const missing = directories.filter((directory) => !snapshot.directories.has(directory));
  const rootData = files.snapshot.files.filter(({ kind, path }) => kind === 'data' && directoryOf(path) === '.');
  return [
    ...missing.map((directory) =>
      errorFinding(
        'directory_missing',
        'directories',
        `there is no directory ${directory}`,
        'Correct SYNC_POLICY_SUBSCRIPTION_DIRS: the server answers 404 to a client that asks for it.',
      ),
    ),
    ...files.rejected.map(rejectedFinding),
    ...warned(snapshot, 'manifest_line', 'data_replaced'),
    ...limited(links.filter(isMissed), (file) =>
      warningFinding(
        'not_a_file',
        'files',
        'is a symbolic link or a submodule, which bundles leave out',
        'Commit the file itself, or leave it as it is if no policy needs it.',
        { file },
      ),
    ),
    ...warned(snapshot, 'yaml_data'),
    ...(directories.includes('.') ? [] : rootData).map(({ path: file }) =>
      warningFinding(
        'root_data_left_out',
        'data',
        'does not reach clients that subscribe to directories',
        'Move it into one of the directories, or let clients subscribe to the whole repository.',
        { file },
      ),
    ),
    ...jsonFindings(files.others),
    ...ignoredFindings(files.ignored),
    ...contentFindings(files, target),
  ];
}

function warned({ warnings }: BundleFiles['snapshot'], ...kinds: readonly FileWarning['kind'][]): Finding[] {
  return limited(
    warnings.filter(({ kind }) => kinds.includes(kind)),
    ({ kind, file, line, reason }) =>
      warningFinding(kind, kind === 'manifest_line' ? 'manifest' : 'data', reason, REMEDIES[kind], {
        file,
        ...(line !== undefined && { line }),
      }),
  );
}

/** Whether a link would be in the bundle if it were a file, or may be a folder. */
function isMissed(link: string): boolean {
  const name = lastSegment(link);
  return /\.rego$|data\.json$/.test(name) || !name.includes('.');
}

function rejectedFinding({ path, problem }: RejectedFile): Finding {
  const { line, cause } = problem;
  const detail = cause === undefined ? '' : `: ${cause.message}`;
  const place = { file: path.replaceAll('\uFFFD', '?'), ...(line !== undefined && { line }) };
  const { id, remedy } = REJECTIONS[problem.kind];
  return errorFinding(id, 'files', `${problem.text}${detail}`, `${remedy} The server rejects a commit with it.`, place);
}

const REJECTIONS: Record<RejectedFile['problem']['kind'], { readonly id: string; readonly remedy: string }> = {
  name: { id: 'name_not_utf8', remedy: 'Rename the file.' },
  not_utf8: { id: 'file_not_utf8', remedy: 'Save the file as UTF-8, or let SYNC_BUNDLE_IGNORE leave it out.' },
  not_json: { id: 'file_not_json', remedy: 'Repair the file, or let SYNC_BUNDLE_IGNORE leave it out.' },
  too_deep: { id: 'file_too_deep', remedy: 'Nest the data less deep, or let SYNC_BUNDLE_IGNORE leave the file out.' },
  long_number: {
    id: 'file_long_number',
    remedy: 'Write the number as text, or let SYNC_BUNDLE_IGNORE leave the file out.',
  },
  long_package: {
    id: 'file_long_package',
    remedy: 'Give the package fewer names, or let SYNC_BUNDLE_IGNORE leave the file out.',
  },
  lfs_pointer: {
    id: 'file_is_lfs_pointer',
    remedy: 'Take the file out of LFS, or let SYNC_BUNDLE_IGNORE leave it out.',
  },
  not_object: { id: 'root_data_not_object', remedy: 'Put the value into a member of an object, or into a folder.' },
};

/** One finding for all JSON files that are no data files; what begins with a dot is of tools. */
function jsonFindings(others: readonly string[]): Finding[] {
  const names = others.filter((path) => path.endsWith('.json') && !/(^|\/)\./.test(path));
  if (names.length === 0) return [];
  const verb = names.length === 1 ? 'is' : 'are';
  return [okFinding('json_left_out', 'data', `${firstNames(names)} ${verb} left out: data files are called data.json`)];
}

/** One finding for each ignore pattern that leaves something out. */
function ignoredFindings(ignored: BundleFiles['ignored']): Finding[] {
  const byPattern = new Map<string, string[]>();
  for (const { path, pattern } of ignored) byPattern.set(pattern, [...(byPattern.get(pattern) ?? []), path]);
  return [...byPattern].map(([pattern, paths]) => {
    return okFinding('ignored', 'ignored', `${pattern} of SYNC_BUNDLE_IGNORE leaves out ${firstNames(paths)}`);
  });
}

function firstNames(paths: readonly string[]): string {
  const more = paths.length > NAMED ? ` and ${paths.length - NAMED} more` : '';
  return `${paths.slice(0, NAMED).join(', ')}${more}`;
}

function contentFindings({ modules, data, rejected }: BundleFiles, target: string): Finding[] {
  const amount = `${counted(modules.length, 'module')} and ${counted(data.length, 'data file')}`;
  if (modules.length + data.length > 0) return [okFinding('bundle', 'bundle', amount)];
  if (rejected.length > 0) return []; // all that there is
  return [
    errorFinding(
      'bundle_empty',
      'bundle',
      `nothing to serve in ${target}: no module, no data file`,
      'Check folder, branch, SYNC_POLICY_REPO_POLICY_EXTENSIONS and SYNC_BUNDLE_IGNORE. Data files are called data.json.',
    ),
  ];
}

function limited<T>(items: readonly T[], finding: (item: T) => Finding): Finding[] {
  const found = items.slice(0, SHOWN).map(finding);
  const last = found.at(-1);
  const more = items.length - SHOWN;
  if (last === undefined || more <= 0) return found;
  const { id, subject, remedy } = last;
  return [...found, { level: 'warning', id, subject, message: `and ${more} more of this kind`, remedy }];
}
