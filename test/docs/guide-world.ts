import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { dirname, join } from 'node:path';
import { installedPackage } from '../support/installed-package.js';
import { freePort, testOpa } from '../support/opa.js';
import { repoRoot } from '../support/repo.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';
import { type Ended, openTerminal, type Running, signal, type Terminal } from './terminal.js';

/** The machine of a reader: a home, the package on PATH, and the programs that were started and go on. */
export interface World extends AsyncDisposable {
  /** What is removed in the end; the home is below it. */
  readonly folder: string;
  /** A new terminal, in the home. */
  terminal(more?: NodeJS.ProcessEnv): Promise<Terminal>;
  /** Runs what is typed, or starts it where it goes on, and waits until that works. */
  type(terminal: Terminal, command: string): Promise<Ended>;
  /** Remembers what goes on now, for {@link World.restore}. */
  remember(): void;
  /** Starts again what has been replaced since, but for what these commands start themselves. */
  restore(commands: readonly string[]): Promise<void>;
}

/** The ports of the guides. */
const PORTS = { server: 7002, client: 7000, engine: 8181 };
const READY_MS = 60_000;
/** What goes on until it is ended, rather than to its end. */
const PROGRAMS = [
  { kind: 'server', typed: /(?:^|[\s=])(?:sync-server run|policysync server(?: run)?)(?=\s|$)/ },
  { kind: 'client', typed: /(?:^|[\s=])(?:sync-client run|policysync client(?: run)?)(?=\s|$)/ },
] as const;
type Kind = (typeof PROGRAMS)[number]['kind'];

/** A machine with nothing but the package, git and OPA; `examples` are in its home, as in a checkout. */
export async function newWorld(): Promise<World> {
  const folder = await tempDir();
  const home = join(folder.path, 'home');
  const programs = join(folder.path, 'programs');
  await Promise.all([home, programs].map((each) => mkdir(each)));
  const { project } = installedPackage();
  await cp(join(repoRoot(), 'examples'), join(home, 'examples'), { recursive: true });
  await symlink(join(project, 'node_modules'), join(folder.path, 'node_modules')); // where npx finds the package
  await symlink(await testOpa(), join(programs, 'opa'));
  await writeFile(join(home, '.gitconfig'), '[user]\n\tname = A Reader\n\temail = reader@example.com\n');
  const ports = await ownPorts();
  const env = {
    HOME: home,
    PATH: [join(project, 'node_modules', '.bin'), programs, dirname(process.execPath), process.env.PATH ?? ''].join(
      ':',
    ),
    LANG: 'C.UTF-8',
    ...movedTo(ports),
  };
  const running = new Map<Kind, Running & { typed: string }>();
  let remembered = new Map<Kind, string>();
  let terminals = 0;

  const end = async (program: Running): Promise<void> => {
    signal(program.group, 'SIGTERM');
    try {
      await until(() => !program.isRunning(), { withinMs: 20_000, what: 'the program ends' });
    } finally {
      signal(program.group, 'SIGKILL');
    }
  };

  const world: World = {
    folder: folder.path,
    terminal: async (more = {}) => {
      const output = join(folder.path, `terminal-${++terminals}`);
      await mkdir(output);
      return openTerminal(output, home, { ...env, ...more });
    },
    remember: () => {
      remembered = new Map([...running].map(([kind, { typed }]) => [kind, typed]));
    },
    restore: async (commands) => {
      const own = commands.map(programOf);
      for (const [kind, typed] of remembered) {
        if (running.get(kind)?.typed === typed || own.includes(kind)) continue;
        await using terminal = await world.terminal();
        await world.type(terminal, typed);
      }
    },
    type: async (terminal, typed) => {
      const command = withPorts(typed, PORTS, ports);
      const program = programOf(command);
      if (program === undefined) {
        const ended = await terminal.run(command);
        return { ...ended, stdout: withPorts(ended.stdout, ports, PORTS) };
      }
      const before = running.get(program);
      if (before !== undefined) await end(before);
      const started = await terminal.start(command);
      running.set(program, { ...started, typed });
      const isUp = async (): Promise<boolean> => {
        if (!started.isRunning()) throw new Error(`it has ended: ${started.output()}`);
        const [port, path] = program === 'server' ? [ports.server, 'healthcheck'] : [ports.client, 'ready'];
        const scheme = /_TLS_CERT_FILE=/.test(typed) ? 'https' : 'http';
        return await answers(`${scheme}://127.0.0.1:${port}/${path}`);
      };
      const isUpOrEnded = async (): Promise<boolean> => !started.isRunning() || (await isUp());
      await until(isUpOrEnded, { withinMs: READY_MS, what: `ready: ${typed}` }).catch((cause: unknown) => {
        throw new Error(`it did not become ready; it said:\n${started.output()}`, { cause });
      });
      return { code: started.isRunning() ? 0 : 1, stdout: '', stderr: started.output() };
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...running.values()].map(end));
      await folder[Symbol.asyncDispose]();
    },
  };
  return world;
}

/** Which program a command starts that goes on; undefined for one that ends. */
export function programOf(command: string): Kind | undefined {
  const [line = ''] = command.replaceAll(/\\\n\s*/g, ' ').split('\n');
  if (/--(?:help|help-all|version|print-config)\b/.test(line)) return undefined;
  return PROGRAMS.find(({ typed }) => typed.test(line))?.kind;
}

/** Whether a program says that it is up; its certificate is not what is looked at. */
async function answers(url: string): Promise<boolean> {
  const { get } = url.startsWith('https:') ? https : http;
  return await new Promise((resolve, reject) => {
    get(url, { rejectUnauthorized: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    }).on('error', reject);
  });
}

/** Free ports: other tests may use those of the guides at the same time. */
async function ownPorts(): Promise<typeof PORTS> {
  return { server: await freePort(), client: await freePort(), engine: await freePort() };
}

/** The settings that move the programs to other ports. */
function movedTo({ server, client, engine }: typeof PORTS): NodeJS.ProcessEnv {
  return {
    SYNC_SERVER_BIND_PORT: `${server}`,
    SYNC_SERVER_URL: `http://127.0.0.1:${server}`,
    SYNC_CLIENT_API_SERVER_PORT: `${client}`,
    SYNC_POLICY_STORE_URL: `http://127.0.0.1:${engine}`,
  };
}

/** A text with other ports in its addresses. */
function withPorts(text: string, from: typeof PORTS, to: typeof PORTS): string {
  const names = Object.keys(PORTS) as (keyof typeof PORTS)[];
  return names.reduce((made, name) => made.replaceAll(new RegExp(`(?<=:)${from[name]}\\b`, 'g'), `${to[name]}`), text);
}
