import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { devNull, tmpdir } from 'node:os';
import { join } from 'node:path';
import { askJson, PartEnded, waitFor } from './demo-ask.mjs';
import { checkMachine, compile, findOpa } from './demo-build.mjs';
import { nextSteps } from './demo-next.mjs';
import { duration } from './demo-print.mjs';
import { choosePort, createProcesses, lastLines } from './demo-processes.mjs';
import { changeRole, commitOwnerRule, makePolicyRepo, OWNER_RULE, startDataSource, writeUsers } from './demo-world.mjs';
import { Fatal } from './run.mjs';

/** Number of calls of `print.step` below. */
export const STEPS = 7;

const POLL_SECONDS = 1;
/** Longest wait for anything: seconds on an idle machine. */
const WITHIN_MS = 60_000;
const LOG_LINES = 15;

const MAY_WRITE = { user: 'alice', action: 'write' };
const MAY_DELETE_OWN = { user: 'alice', action: 'delete', owner: 'alice' };

/** The steps of the demo, and all that they start. */
export class Story {
  #root;
  #print;
  #signal;
  #dir = realpathSync(mkdtempSync(join(tmpdir(), 'policysync-demo-')));
  #repo = join(this.#dir, 'policy-repo');
  #usersFile = join(this.#dir, 'users.json');
  #processes;
  /** How to end what was started, in the order of the starts. */
  #stops = [];
  /** Server and client, once they run. */
  #parts = [];
  #ports = { server: 7002, client: 7000, engine: 8181 };
  #opaPath;
  #source;

  constructor(root, { print, signal }) {
    this.#root = root;
    this.#print = print;
    this.#signal = signal;
    this.#processes = createProcesses(this.#dir, signal);
  }

  /** Everything up to the last decision. Fails when a step does not happen. */
  async tell() {
    await this.#build();
    await this.#getEngine();
    await this.#makeSources();
    await this.#startServer();
    await this.#startClient();
    await this.#firstDecision();
    await this.#changeData();
    await this.#changePolicy();
  }

  /** Prints what to try next, and waits until the demo is stopped. Fails when a part ends by itself. */
  async stayUp() {
    const print = this.#print;
    for (const { title, lines } of nextSteps({
      server: this.#url('server'),
      client: this.#url('client'),
      engine: this.#url('engine'),
      repo: this.#repo,
      logs: this.#parts.map((part) => part.logFile),
      cli: this.#program('client'),
      isProxied: Boolean(process.env.http_proxy ?? process.env.ALL_PROXY ?? process.env.all_proxy),
    })) {
      print.title(`\n${title}`);
      print.line(lines.join('\n'));
    }
    print.title('\nAll of this runs until you press Ctrl-C, and leaves nothing behind.');
    const asked = new Promise((resolve) => {
      if (this.#signal.aborted) resolve();
      else this.#signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const ends = this.#parts.map(async (part) => new PartEnded(part, await part.ended));
    const gone = await Promise.race([asked, ...ends]);
    this.#signal.throwIfAborted();
    throw gone;
  }

  /** Prints the last lines of server and client. */
  showLogs() {
    for (const part of this.#parts) {
      this.#print.title(`\nlast lines of the ${part.name}`);
      this.#print.line(lastLines(part.log(), LOG_LINES));
    }
  }

  /** Ends everything that was started, last first, and removes the folder. */
  async end() {
    for (const stop of this.#stops.splice(0).reverse()) await stop();
    this.#removeFolder();
  }

  /** For a process that ends without {@link end}: what can be done without waiting. */
  abandon() {
    this.#processes.abandon();
    this.#removeFolder();
  }

  async #build() {
    this.#print.step('Build');
    mkdirSync(this.#repo);
    mkdirSync(this.#tempDir);
    checkMachine(this.#root);
    this.#print.line(`Node ${process.versions.node}, ${await this.#git('--version')}`);
    await compile(this.#root, { print: this.#print, processes: this.#processes });
  }

  async #getEngine() {
    this.#print.step('Policy engine (OPA)');
    this.#opaPath = await findOpa(this.#root, { print: this.#print, signal: this.#signal });
  }

  async #makeSources() {
    const print = this.#print;
    print.step('A policy repository and a data source');
    await makePolicyRepo(this.#repo, this.#git);
    print.line(`policy  ${this.#repo}`);
    print.line('        app/rbac.rego: users may do what their role allows');
    print.line('        roles/data.json: what each role allows');
    writeUsers(this.#usersFile);
    this.#source = await startDataSource(this.#usersFile);
    this.#stops.push(() => this.#source.stop());
    print.line(`data    ${this.#source.url}/users: which user has which role (${this.#usersFile})`);
  }

  async #startServer() {
    this.#print.step('A sync server and a sync client');
    const entry = { url: `${this.#source.url}/users`, topics: ['policy_data'], dst_path: '/users' };
    await this.#start('server', () => ({
      SYNC_SERVER_BIND_PORT: String(this.#ports.server),
      SYNC_STATE_DIR: join(this.#dir, 'server-state'),
      SYNC_POLICY_REPO_URL: this.#repo,
      SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
      SYNC_POLICY_REPO_POLLING_INTERVAL: String(POLL_SECONDS),
      SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: [entry] } }),
    }));
    this.#print.line(`sync-server  ${this.#url('server')}  follows the repository and takes data updates`);
  }

  async #startClient() {
    await this.#start('client', async (attempt) => {
      this.#ports.engine = await choosePort(attempt === 1 ? this.#ports.engine : 0);
      return {
        SYNC_SERVER_URL: this.#url('server'),
        SYNC_CLIENT_API_SERVER_PORT: String(this.#ports.client),
        SYNC_POLICY_STORE_URL: this.#url('engine'),
        ...(this.#opaPath === undefined
          ? { SYNC_ENGINE: 'embedded', XDG_CACHE_HOME: join(this.#dir, 'cache') }
          : { SYNC_INLINE_ENGINE_EXEC_PATH: this.#opaPath }),
      };
    });
    this.#print.line(`sync-client  ${this.#url('client')}  keeps its OPA at ${this.#url('engine')} current`);
  }

  async #firstDecision() {
    const print = this.#print;
    print.step('A first decision');
    const look = async () => {
      const health = await askJson(`${this.#url('client')}/healthy`, this.#signal);
      const users = await askJson(`${this.#url('engine')}/v1/data/users`, this.#signal);
      const allowed = await this.#decide(MAY_WRITE);
      const role = users?.json.result?.alice?.role;
      return health?.status === 200 && role !== undefined && allowed !== undefined ? { role, allowed } : undefined;
    };
    const { role, allowed } = await print.working(
      'waiting until the engine has policy and data',
      waitFor(look, { ...this.#waiting, what: 'Policy and data in the engine' }),
    );
    if (allowed !== false) throw new Fatal(`The first decision should be "no" and is ${JSON.stringify(allowed)}.`);
    this.#showDecision('May alice write a report?', false, `(her role is ${role})`);
  }

  async #changeData() {
    const print = this.#print;
    print.step('A data update: alice becomes an editor');
    changeRole(this.#usersFile, 'alice', 'editor');
    const where = ['--server-url', this.#url('server')];
    const what = ['--src-url', `${this.#source.url}/users/alice`, '-t', 'policy_data', '--dst-path', '/users/alice'];
    const args = ['publish-data-update', ...where, ...what, '--reason', 'alice is an editor now'];
    print.line(`$ sync-client ${args.map((arg) => (arg.includes(' ') ? `"${arg}"` : arg)).join(' ')}`);
    let sentMs;
    const publishing = this.#processes.run(process.execPath, [this.#program('client'), ...args], {
      env: this.#childEnv({}),
      // The command prints right before it sends; the time before that is its own start.
      onOutput: () => {
        sentMs ??= performance.now();
      },
    });
    const changed = this.#decides(MAY_WRITE, 'The decision after the data update');
    changed.catch(() => undefined); // awaited below, after the command, whose failure says more
    const { code, output } = await publishing;
    if (code !== 0) throw new Fatal(`The update was not published: ${output}`);
    print.line(output);
    const seenMs = await print.working('waiting for the decision', changed);
    this.#showDecision('May alice write a report?', true, `${duration(seenMs - sentMs)} after the update was sent`);
  }

  async #changePolicy() {
    const print = this.#print;
    print.step('A policy change: owners may do anything with their documents');
    const before = await this.#decide(MAY_DELETE_OWN);
    if (before !== false) throw new Fatal(`This decision should be "no" and is ${JSON.stringify(before)}.`);
    this.#showDecision('May alice delete a document of her own?', false);
    print.line('$ git commit --all  # app/rbac.rego now also has');
    for (const line of OWNER_RULE.trimEnd().split('\n')) print.line(`    ${line}`);
    const committedMs = performance.now();
    await commitOwnerRule(this.#repo, this.#git);
    const changed = this.#decides(MAY_DELETE_OWN, 'The decision after the commit');
    const seenMs = await print.working('waiting for the decision', changed);
    const passed = duration(seenMs - committedMs);
    this.#showDecision('May alice delete a document of her own?', true, `${passed} after the commit`);
    print.line(`(the server looks for commits every ${POLL_SECONDS} s here)`);
  }

  /** Starts a program and waits until it answers; on another port where somebody else was quicker. */
  async #start(name, settings) {
    for (let attempt = 1; ; attempt += 1) {
      this.#ports[name] = await choosePort(attempt === 1 ? this.#ports[name] : 0);
      const env = this.#childEnv(await settings(attempt));
      const part = this.#processes.start(`sync-${name}`, [this.#program(name), 'run'], env);
      this.#stops.push(() => part.stop());
      this.#parts.push(part);
      const url = this.#url(name);
      const look = async () => ((await askJson(url, this.#signal)) === undefined ? undefined : true);
      const answers = { ...this.#waiting, parts: [part], what: `An answer of the sync-${name} at ${url}` };
      try {
        await this.#print.working(`waiting for the sync-${name}`, waitFor(look, answers));
        return;
      } catch (error) {
        if (!(error instanceof PartEnded) || !/cannot listen/.test(part.log()) || attempt === 3) throw error;
        this.#parts.pop();
      }
    }
  }

  /** What OPA answers to a question; undefined where it has no policy yet. */
  async #decide(input) {
    const answer = await askJson(`${this.#url('engine')}/v1/data/app/rbac/allow`, this.#signal, { input });
    return answer?.json.result;
  }

  /** Waits until OPA says yes; answers when that was seen. */
  async #decides(input, what) {
    const look = async () => ((await this.#decide(input)) === true ? true : undefined);
    await waitFor(look, { ...this.#waiting, everyMs: 2, what });
    return performance.now();
  }

  #showDecision(question, isAllowed, more = '') {
    const print = this.#print;
    print.line(`${question}  ${isAllowed ? print.green('YES') : print.red('NO')}  ${more}`.trimEnd());
  }

  get #waiting() {
    return { signal: this.#signal, withinMs: WITHIN_MS, parts: this.#parts };
  }

  get #tempDir() {
    return join(this.#dir, 'tmp');
  }

  #url(name) {
    return `http://127.0.0.1:${this.#ports[name]}`;
  }

  #program(name) {
    return join(this.#root, 'dist', 'cli', `${name}.js`);
  }

  /** Settings come from here alone, temporary files go into our folder, and nothing local goes through a proxy. */
  #childEnv(settings) {
    return {
      ...environmentWithout(/^(SYNC|OPAL)_/),
      ...{ TMPDIR: this.#tempDir, TEMP: this.#tempDir, TMP: this.#tempDir },
      ...{ NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost', NO_COLOR: '1' },
      SYNC_LOG_FORMAT: 'pretty',
      ...settings,
    };
  }

  /** Runs git in the policy repository, whatever the user's own configuration says. */
  #git = async (...args) => {
    const own = { GIT_CONFIG_GLOBAL: devNull, GIT_CONFIG_NOSYSTEM: '1', LC_ALL: 'C' };
    const { code, output } = await this.#processes.run('git', args, {
      cwd: this.#repo,
      env: { ...environmentWithout(/^GIT_/), ...own },
      missing: 'git is not on PATH; install it (https://git-scm.com/downloads) and run the demo again.',
    });
    if (code !== 0) throw new Fatal(`"git ${args[0]}" failed in ${this.#repo}: ${output}`);
    return output;
  };

  #removeFolder() {
    rmSync(this.#dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

function environmentWithout(names) {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !names.test(name)));
}
