import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { acquireOpa } from '../../../client/engine/get-opa/acquire-opa.js';
import { errorCode, errorText } from '../../../lib/errors.js';
import { askJson, valueAt } from './ask.js';
import { changeRole, type DataSource, startDataSource, writeUsers } from './data-source.js';
import { DemoFailure } from './failure.js';
import { ownProgram } from './own-command.js';
import { commitOwnerRule, type Git, gitIn, makePolicyRepo, OWNER_RULE } from './policy-repo.js';
import { spokenDuration } from './print.js';
import type { DemoQuestion, Stage } from './stage.js';

/** Number of steps below. */
export const STEPS = 6;

const POLL_SECONDS = 1;
/** A decision is looked for so often: what is shown is how soon it changes. */
const LOOK_EVERY_MS = 2;

const MAY_WRITE: DemoQuestion = { user: 'alice', action: 'write' };
const MAY_DELETE_OWN: DemoQuestion = { user: 'alice', action: 'delete', owner: 'alice' };

/** Everything up to the last decision. Fails when a step does not happen. */
export async function tellStory(stage: Stage): Promise<void> {
  const repo = stage.repo;
  mkdirSync(repo);
  const git = gitIn(repo, stage.processes, stage.env);
  const opa = await lookAround(stage, git);
  const users = join(stage.folder, 'users.json');
  const source = await makeSources(stage, git, users);
  await startServer(stage, source);
  await startClient(stage, opa);
  await firstDecision(stage);
  await changeData(stage, source, users);
  await changePolicy(stage, git);
}

/** Says what this machine has; answers the path of an OPA program, undefined if there is none. */
async function lookAround({ print, env, signal }: Stage, git: Git): Promise<string | undefined> {
  print.step('This machine');
  print.line(`Node ${process.versions.node}, ${await git('--version')}`);
  try {
    const execPath = env.SYNC_INLINE_ENGINE_EXEC_PATH || undefined;
    const { path, version } = await acquireOpa({ execPath, env, allowDownload: false, signal });
    print.line(`OPA ${version} at ${path}, as a child process of the client`);
    return path;
  } catch (error) {
    signal.throwIfAborted();
    if (errorCode(error) !== 'engine_not_found') throw new DemoFailure(errorText(error), error);
    print.line('OPA inside the package: there is no OPA program on this machine, and none is needed');
    return undefined;
  }
}

async function makeSources(stage: Stage, git: Git, users: string): Promise<DataSource> {
  const { print, repo } = stage;
  print.step('A policy repository and a data source');
  await makePolicyRepo(repo, git);
  print.line(`policy  ${repo}`);
  print.line('        app/rbac.rego: users may do what their role allows');
  print.line('        roles/data.json: what each role allows');
  writeUsers(users);
  const source = await startDataSource(users);
  stage.endLater(() => source.stop());
  print.line(`data    ${source.url}/users: which user has which role (${users})`);
  return source;
}

async function startServer(stage: Stage, source: DataSource): Promise<void> {
  stage.print.step('A sync server and a sync client');
  const entry = { url: `${source.url}/users`, topics: ['policy_data'], dst_path: '/users' };
  await stage.start('server', async () => ({
    SYNC_SERVER_BIND_PORT: stage.port('server'),
    SYNC_STATE_DIR: join(stage.folder, 'server-state'),
    SYNC_POLICY_REPO_URL: stage.repo,
    SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
    SYNC_POLICY_REPO_POLLING_INTERVAL: String(POLL_SECONDS),
    SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: [entry] } }),
  }));
  stage.print.line(`policysync server  ${stage.url('server')}  follows the repository and takes data updates`);
}

async function startClient(stage: Stage, opa: string | undefined): Promise<void> {
  await stage.start('client', async (attempt) => {
    await stage.chooseEnginePort(attempt);
    return {
      SYNC_SERVER_URL: stage.url('server'),
      SYNC_CLIENT_API_SERVER_PORT: stage.port('client'),
      SYNC_POLICY_STORE_URL: stage.url('engine'),
      ...(opa === undefined ? { SYNC_ENGINE: 'embedded' } : { SYNC_INLINE_ENGINE_EXEC_PATH: opa }),
    };
  });
  stage.print.line(`policysync client  ${stage.url('client')}  keeps its OPA at ${stage.url('engine')} current`);
}

async function firstDecision(stage: Stage): Promise<void> {
  const { print, signal } = stage;
  print.step('A first decision');
  const look = async (): Promise<{ role: string; isAllowed: unknown } | undefined> => {
    const health = await askJson(`${stage.url('client')}/healthy`, signal);
    const users = await askJson(`${stage.url('engine')}/v1/data/users`, signal);
    const isAllowed = await stage.decide(MAY_WRITE);
    const role = valueAt(users, 'result', 'alice', 'role');
    return health?.status === 200 && typeof role === 'string' && isAllowed !== undefined
      ? { role, isAllowed }
      : undefined;
  };
  const filled = stage.wait(look, 'Policy and data in the engine');
  const { role, isAllowed } = await print.working('waiting until the engine has policy and data', filled);
  expectNo(isAllowed);
  showDecision(stage, 'May alice write a report?', false, `(her role is ${role})`);
}

async function changeData(stage: Stage, source: DataSource, users: string): Promise<void> {
  const { print } = stage;
  print.step('A data update: alice becomes an editor');
  changeRole(users, 'alice', 'editor');
  const what = ['--src-url', `${source.url}/users/alice`, '--dst-path', '/users/alice'];
  const args = ['publish', '--server-url', stage.url('server'), ...what, '--reason', 'alice is an editor now'];
  print.line(`$ policysync ${args.map((arg) => (arg.includes(' ') ? `"${arg}"` : arg)).join(' ')}`);
  let sentMs = performance.now();
  let isSent = false;
  const publishing = stage.processes.run(process.execPath, [ownProgram(), ...args], {
    env: stage.childEnv({}),
    // The command prints right before it sends; the time before that is its own start.
    onOutput: () => {
      if (!isSent) sentMs = performance.now();
      isSent = true;
    },
  });
  const changed = turnsToYes(stage, MAY_WRITE, 'The decision after the data update');
  changed.catch(() => undefined); // awaited below, after the command, whose failure says more
  const { code, output } = await publishing;
  if (code !== 0) throw new DemoFailure(`the update was not published: ${output}`);
  print.line(output);
  const seenMs = await print.working('waiting for the decision', changed);
  showDecision(
    stage,
    'May alice write a report?',
    true,
    `${spokenDuration(seenMs - sentMs)} after the update was sent`,
  );
}

async function changePolicy(stage: Stage, git: Git): Promise<void> {
  const { print } = stage;
  print.step('A policy change: owners may do anything with their documents');
  expectNo(await stage.decide(MAY_DELETE_OWN));
  showDecision(stage, 'May alice delete a document of her own?', false);
  print.line('$ git commit --all  # app/rbac.rego now also has');
  for (const line of OWNER_RULE.trimEnd().split('\n')) print.line(`    ${line}`);
  const committedMs = performance.now();
  await commitOwnerRule(stage.repo, git);
  const changed = turnsToYes(stage, MAY_DELETE_OWN, 'The decision after the commit');
  const passedMs = (await print.working('waiting for the decision', changed)) - committedMs;
  showDecision(stage, 'May alice delete a document of her own?', true, `${spokenDuration(passedMs)} after the commit`);
  print.line(`(the server looks for commits every ${POLL_SECONDS} s here)`);
}

function expectNo(decision: unknown): void {
  if (decision !== false) throw new DemoFailure(`the decision should be "no" and is ${JSON.stringify(decision)}`);
}

/** Waits until OPA says yes; answers when that was seen. */
async function turnsToYes(stage: Stage, question: DemoQuestion, what: string): Promise<number> {
  const look = async (): Promise<true | undefined> => ((await stage.decide(question)) === true ? true : undefined);
  await stage.wait(look, what, LOOK_EVERY_MS);
  return performance.now();
}

function showDecision({ print }: Stage, question: string, isAllowed: boolean, more = ''): void {
  print.line(`${question}  ${isAllowed ? print.green('YES') : print.red('NO')}  ${more}`.trimEnd());
}
