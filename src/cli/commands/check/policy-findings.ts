import { type Compiled, dataFileAt, type Entrypoints } from '../../../checker/check-engine.js';
import type { TextFile } from '../../../checker/messages.js';
import { docPathText } from '../../../wire/doc-path.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import { counted } from '../../kit/text.js';
import type { BundleFiles } from './bundle-files.js';
import type { Difference } from './compare.js';
import type { TestResult } from './run-tests.js';

/** Most findings of one kind. */
const SHOWN = 50;
/** Built-in functions that an embedded engine refuses unless a setting allows them. */
const SENDING = ['http.send', 'net.lookup_ip_addr'];

/** What OPA says of the policy. Pure. */
export function policyFindings({ modules, data }: BundleFiles, compiled: Compiled): Finding[] {
  const { problems, v0, opaVersion, taken } = compiled;
  if (problems.length > 0) {
    return problems.slice(0, SHOWN).map(({ message, file, row, conflictPath }) => {
      const place = { ...(file !== undefined && { file }), ...(row !== undefined && { line: row }) };
      if (conflictPath === undefined) {
        const remedy = 'Correct the module: engines keep the last good commit until it compiles.';
        return errorFinding('compile_error', 'policy', message, remedy, place);
      }
      const source = dataFileAt(data, conflictPath);
      const which = source === undefined ? '' : ` (its value is in ${source})`;
      const remedy = `Rename the rule or the member: ${docPathText(conflictPath)} cannot be both. Engines reject the commit.`;
      return errorFinding('data_conflicts_with_rule', 'policy', `${message}${which}`, remedy, place);
    });
  }
  if (modules.length + data.length === 0) return [];
  const sending = SENDING.filter((name) => taken?.facts.builtins.includes(name));
  const versions = v0.size === 0 ? 'Rego v1' : `${modules.length - v0.size} as Rego v1, ${v0.size} as v0`;
  return [
    okFinding(
      'policy_compiles',
      'policy',
      `${counted(modules.length, 'module')}, compiled by OPA ${opaVersion}: ${versions}`,
    ),
    ...[...v0].slice(0, SHOWN).map((file) => okFinding('rego_v0', 'policy', 'is read as Rego v0', { file })),
    ...sending.map((name) =>
      warningFinding(
        'embedded_refuses',
        'policy',
        `it calls ${name}, which an embedded engine refuses`,
        'Let clients have an OPA program, or set SYNC_EMBEDDED_HTTP_SEND=true for http.send (docs/how-to/engine.md).',
      ),
    ),
  ];
}

/**
 * How an embedded engine would answer the decisions that the settings name. None is a mistake: Go
 * gives the same answers. Pure.
 */
export function entrypointFindings({ compiled, withGo }: Entrypoints): Finding[] {
  return [
    ...compiled.map((path) => okFinding('entrypoint_compiled', 'entrypoints', `${path} is compiled`)),
    ...withGo.map(({ path, reason }) =>
      okFinding('entrypoint_with_go', 'entrypoints', `${path} is not compiled: ${reason}`),
    ),
  ];
}

/** The results of `opa test`. Pure. */
export function testFindings(results: readonly TestResult[]): Finding[] {
  const count = (outcome: TestResult['outcome']): number =>
    results.filter((result) => result.outcome === outcome).length;
  const failed = results.filter(({ outcome }) => outcome === 'failed');
  const skipped = count('skipped');
  if (results.length === 0) {
    const remedy = 'Write rules whose names begin with test_, in modules that are called ..._test.rego.';
    return [warningFinding('no_tests', 'tests', 'there are no tests', remedy)];
  }
  const passed = `${counted(count('passed'), 'test')} passed${skipped === 0 ? '' : `, ${skipped} skipped`}`;
  return [
    ...failed.slice(0, SHOWN).map(({ name, error, file, line }) =>
      errorFinding(
        'test_failed',
        'tests',
        `${name} failed${error === undefined ? '' : `: ${error}`}`,
        'Correct the rule or its test.',
        {
          ...(file !== undefined && { file }),
          ...(line !== undefined && { line }),
        },
      ),
    ),
    ...(count('passed') + skipped === 0 ? [] : [okFinding('tests_passed', 'tests', passed)]),
  ];
}

/** The comparison with a server. Pure. */
export function differenceFindings(difference: Difference, { url, hash }: { url: string; hash: string }): Finding[] {
  const { same, changed, only_here: here, only_there: there } = difference;
  const served = `${url} serves ${hash.slice(0, 10)}`;
  const kinds: readonly [string, readonly string[], string][] = [
    ['changed', changed, 'differs from what the server serves'],
    ['only_here', here, 'is not served'],
    ['only_there', there, 'is served, and is not here'],
  ];
  const different = kinds.flatMap(([id, names, what]) =>
    names
      .slice(0, SHOWN)
      .map((name) => errorFinding(id, name, what, 'Commit and push what is here, or update this folder.')),
  );
  if (different.length === 0)
    return [okFinding('same_as_server', 'server', `${served}: all ${counted(same, 'file')} are the same`)];
  const more = changed.length + here.length + there.length;
  return [...different, okFinding('compared', 'server', `${served}: ${counted(same, 'file')} the same, ${more} not`)];
}

/** Modules and data files as `--json` lists them. Pure. */
export function bundleListing({ modules, data, ignored, others }: BundleFiles, v0: ReadonlySet<string>): object {
  const named = ({ path }: TextFile): object => ({ path, rego_version: v0.has(path) ? 'v0' : 'v1' });
  return {
    modules: modules.map(named),
    data_files: data.map(({ path }) => path),
    ignored: ignored.map(({ path, pattern }) => ({ path, pattern })),
    others,
  };
}
