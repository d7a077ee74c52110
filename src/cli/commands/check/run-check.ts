import {
  CheckEngine,
  type Compiled,
  compiledEntrypoints,
  composeData,
  type StartGo,
  type StaticData,
} from '../../../checker/check-engine.js';
import { acquireOpa } from '../../../client/engine/get-opa/acquire-opa.js';
import { regoMode } from '../../../client/engine/modules/rego-versions.js';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { SyncError } from '../../../lib/errors.js';
import { serverAddress } from '../../../lib/net/server-address.js';
import { redactUrl } from '../../../lib/observe/log.js';
import { policyBundle } from '../../../wire/bundle.js';
import { parsedAnswer } from '../../kit/all-clients.js';
import type { CommandIo } from '../../kit/command-io.js';
import { errorFinding, type Finding, failedFinding, reportFindings } from '../../kit/findings.js';
import { commandSettings, connectionFlags } from '../../kit/program-settings.js';
import { askServer } from '../../kit/server-fetch.js';
import { checkedUrl } from '../../kit/server-target.js';
import { type BundleFiles, readBundle } from './bundle-files.js';
import type { CheckOptions, CheckSettings } from './check-settings.js';
import { compareBundles } from './compare.js';
import { dataFindings } from './data-findings.js';
import { BundleTooLarge } from './disk-files.js';
import { fileFindings } from './file-findings.js';
import { type CheckedContent, openContent } from './open-content.js';
import {
  bundleListing,
  differenceFindings,
  entrypointFindings,
  policyFindings,
  testFindings,
} from './policy-findings.js';
import { runTests } from './run-tests.js';

/** The whole repository, as a client asks for it. */
const ROOT = '.';

/** Runs `policysync check`: prints its findings, and throws if one of them fails. */
export async function runCheck(
  target: string,
  options: CheckOptions,
  settings: CheckSettings,
  io: CommandIo,
  startGo: StartGo | undefined,
): Promise<void> {
  const { env, stdout } = io;
  const { branch, commit, json, strict, against } = options;
  if (against !== undefined) checkedUrl(against, '--against');
  await using content = await openContent(
    {
      ...{ target, branch, commit },
      sshKey: settings.policyRepoSshKey,
      fetchTimeoutMs: settings.policyRepoCloneTimeoutMs,
    },
    env,
  );
  const { findings, ...more } = await findingsOf(content, options, settings, io, startGo);
  if (json !== true) stdout.write(`${content.text}\n\n`);
  const checked = { target: content.target, commit: content.commit };
  reportFindings(findings, { json, strict }, { out: stdout, env, more: { ...checked, ...more } });
}

/** The findings, and what `--json` says beside them. */
async function findingsOf(
  content: CheckedContent,
  options: CheckOptions,
  settings: CheckSettings,
  io: CommandIo,
  startGo: StartGo | undefined,
): Promise<{ readonly findings: readonly Finding[] } & Record<string, unknown>> {
  let files: BundleFiles;
  try {
    files = await readBundle(content, {
      policyExtensions: settings.policyExtensions,
      manifestPath: settings.manifestPath,
      ignore: settings.bundleIgnore,
      directories: settings.policyDirs,
    });
  } catch (error) {
    if (error instanceof BundleTooLarge) return { findings: [failedFinding('bundle_too_large', 'bundle', error)] };
    if (!(error instanceof SyncError && error.code === 'policy_commit_refused')) throw error;
    return { findings: [failedFinding('manifest_not_utf8', 'manifest', error)] };
  }
  const statics = composeData(files.data);
  await using engine = await CheckEngine.start(regoMode(settings), io.env, startGo);
  const compiled = await engine.compile(files.modules, statics);
  const findings = [
    ...fileFindings(files, content),
    ...dataFindings(files.data, files.modules),
    ...policyFindings(files, compiled),
  ];
  const more: Record<string, unknown> = {
    opa_version: compiled.opaVersion,
    bundle: bundleListing(files, compiled.v0),
  };
  if (settings.embeddedEntrypoints.length > 0 && compiled.taken !== undefined) {
    const entrypoints = await compiledEntrypoints(compiled.taken, settings, io.env, startGo);
    findings.push(...entrypointFindings(entrypoints));
    more.entrypoints = { compiled: entrypoints.compiled, with_go: entrypoints.withGo };
  }
  if (options.test === true) findings.push(...(await tested(engine, { files, statics, compiled }, settings, io.env)));
  if (options.against === undefined) return { ...more, findings };
  const { against, found } = await compared(files, options.against, options, settings, io);
  return { ...more, against, findings: [...findings, ...found] };
}

async function tested(
  engine: CheckEngine,
  { files, statics, compiled }: { files: BundleFiles; statics: StaticData; compiled: Compiled },
  settings: CheckSettings,
  env: NodeJS.ProcessEnv,
): Promise<Finding[]> {
  // OPA would only say the same again.
  if (compiled.problems.length > 0) {
    return [
      errorFinding('tests_not_run', 'tests', 'not run, the policy does not compile', 'Correct the policy first.'),
    ];
  }
  let execPath: string;
  try {
    const search = { execPath: settings.inlineEngineExecPath, env, allowDownload: false };
    execPath = (await acquireOpa(search)).path;
  } catch (error) {
    if (!(error instanceof SyncError && error.code === 'engine_not_found')) throw error;
    const remedy = 'Get one with policysync opa get, or set SYNC_INLINE_ENGINE_EXEC_PATH.';
    return [errorFinding('opa_missing', 'tests', 'there is no OPA program to run them', remedy)];
  }
  const modules = [...files.modules, ...files.ignoredTests];
  const { v0 } = files.ignoredTests.length === 0 ? compiled : await engine.compile(modules, statics);
  try {
    return testFindings(await runTests(execPath, { modules, v0, document: statics.document }, env));
  } catch (error) {
    if (!(error instanceof SyncError && error.code === 'engine_refused')) throw error;
    return [failedFinding('tests_not_run', 'tests', error, 'Correct the modules of the tests.')];
  }
}

async function compared(
  files: BundleFiles,
  url: string,
  { token, tokenFile }: CheckOptions,
  { policyDirs }: CheckSettings,
  { env, stderr }: CommandIo,
): Promise<{ readonly against: object; readonly found: Finding[] }> {
  const { clientToken } = commandSettings(
    'client',
    { clientToken: CLIENT_SETTINGS.clientToken },
    { env, ...connectionFlags({ token, tokenFile }) },
    stderr,
  );
  const query = new URLSearchParams(
    policyDirs.filter((path) => path !== ROOT).map((path): [string, string] => ['path', path]),
  );
  const { text } = await askServer(
    { url: serverAddress(url, '/policy', query), token: clientToken },
    { code: 'server_refused' },
    env,
  );
  const shown = redactUrl(url).replace(/\/$/, '');
  const bundle = parsedAnswer(policyBundle, text, url);
  const difference = compareBundles(files, bundle);
  const server = { url: shown, hash: bundle.hash };
  return { against: { ...server, ...difference }, found: differenceFindings(difference, server) };
}
