import type { Program } from './program.js';

/** A server that runs, or starts. */
export interface Server extends Program {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Resolves when it answers. */
  ready(): Promise<void>;
}

/** A client that runs, or starts, with an OPA of its own. */
export interface Client extends Program {
  readonly apiUrl: string;
  readonly engineUrl: string;
  /** Resolves when policy and data were loaded. */
  ready(): Promise<void>;
}

/**
 * Settings by their names without `SYNC_` or `OPAL_`: both systems have the same ones. A scenario names only what both know;
 * settings of one system go in `own`, by the system's name.
 */
export interface Settings {
  readonly settings?: Readonly<Record<string, string>>;
  readonly own?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Arguments of Node, where a system runs on it. */
  readonly nodeArgs?: readonly string[];
}

export interface ServerOptions extends Settings {
  /** For all its files; must exist. A second start in the same folder finds them again. */
  readonly dir: string;
  /** Policy repository, branch `master`. */
  readonly repoUrl?: string;
  /** Base data entries. */
  readonly entries?: readonly object[];
  /** Default: one that is free. A server that comes back has the one of before. */
  readonly port?: number;
}

export interface ClientOptions extends Settings {
  readonly dir: string;
  readonly serverUrl: string;
  /** Keep the health document in the engine. */
  readonly healthDocument?: boolean;
}

/** What is measured: programs of one kind behind one interface. Updates are published to each in the same way, see `publish.ts`. */
export interface System {
  /** As it is shown. */
  readonly name: string;
  /** True where the server waits for an answer to each notification. */
  readonly needsAnswers: boolean;
  /** Starts the program and does not wait for it; see {@link Server.ready}. */
  launchServer(options: ServerOptions): Promise<Server>;
  launchClient(options: ClientOptions): Promise<Client>;
}

/** {@link System.launchServer}, and waits until it answers. */
export async function startServer(system: System, options: ServerOptions): Promise<Server> {
  return await whenReady(await system.launchServer(options));
}

/** {@link System.launchClient}, and waits until it has loaded everything. */
export async function startClient(system: System, options: ClientOptions): Promise<Client> {
  return await whenReady(await system.launchClient(options));
}

async function whenReady<P extends Server | Client>(program: P): Promise<P> {
  try {
    await program.ready();
    return program;
  } catch (error) {
    await program.stop();
    throw error;
  }
}

/** Settings with a prefix, those of the system's own included. */
export function prefixed(
  prefix: string,
  system: string,
  { settings = {}, own = {} }: Settings,
): Record<string, string> {
  const all = { ...settings, ...own[system] };
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [`${prefix}${name}`, value]));
}
