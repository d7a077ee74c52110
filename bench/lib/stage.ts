import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type GitRepo, gitRepoAt } from '../../test/support/git-repo.js';
import { startBare } from '../raw/bare.js';
import { startBareOpa } from '../raw/bare-opa.js';
import { type Publisher, publisher, urlEntry } from './publish.js';
import { type Reader, reader } from './reader.js';
import type { Bench } from './scenario.js';
import { type Source, startSource } from './source.js';
import { type Client, type Server, type Settings, type System, startClient, startServer } from './system.js';

/** Everything between a publisher and an engine. */
export interface Stage {
  readonly source: Source;
  readonly publisher: Publisher;
  readonly reader: Reader;
  readonly server: Server;
  /** Undefined for the raw limit, which has no client. */
  readonly client: Client | undefined;
  /** For `watch`. */
  readonly programs: Readonly<Record<string, Server | Client>>;
  readonly repo: Omit<GitRepo, typeof Symbol.asyncDispose>;
  readonly engineUrl: string;
}

/** What a {@link Stage} can vary. */
export interface StageOptions {
  /** Files of the policy repository. Default: one module. */
  readonly files?: Readonly<Record<string, string>>;
  readonly healthDocument?: boolean;
  readonly server?: Settings;
  readonly client?: Settings;
}

/** The module of a small repository. */
export const SMALL_REPO = { 'app/rbac.rego': 'package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n' };

/** Source, repository, server, and one client that has loaded policy and one base document. */
export async function startStage(bench: Bench, system: System, options: StageOptions = {}): Promise<Stage> {
  const { dir } = bench;
  const { files = SMALL_REPO, healthDocument = false } = options;
  const source = bench.keep(await startSource(dir));
  const repo = await repository(dir, files);
  const server = bench.keep(
    await startServer(system, {
      dir: await folder(dir, 'server'),
      repoUrl: repo.url,
      // OPAL's client is not ready before it had data once.
      entries: [urlEntry(source.document(0, 100), '/base')],
      ...options.server,
    }),
  );
  const client = bench.keep(
    await startClient(system, {
      dir: await folder(dir, 'client'),
      serverUrl: server.url,
      healthDocument,
      ...options.client,
    }),
  );
  return {
    source,
    repo,
    server,
    client,
    programs: { server, client },
    publisher: bench.keep(publisher(server.url)),
    reader: bench.keep(await reader(client.engineUrl)),
    engineUrl: client.engineUrl,
  };
}

/** The same for the raw limit: the bare server, and a bare OPA (an empty one, unless there is one) into which it copies. */
export async function startBareStage(
  bench: Bench,
  { durable, engine: given }: { durable: boolean; engine?: { url: string } },
): Promise<Stage> {
  const { dir } = bench;
  const source = bench.keep(await startSource(dir));
  const engine = given ?? bench.keep(await startBareOpa(dir));
  const server = bench.keep(await startBare({ dir, durable, engineUrl: engine.url }));
  return {
    source,
    repo: await repository(dir, SMALL_REPO),
    server,
    client: undefined,
    programs: { server },
    publisher: bench.keep(publisher(server.url)),
    reader: bench.keep(await reader(engine.url)),
    engineUrl: engine.url,
  };
}

/** A repository with these files in one commit. */
export async function repository(dir: string, files: Readonly<Record<string, string>>): Promise<Stage['repo']> {
  const repo = await gitRepoAt(join(dir, 'policy.git'));
  await repo.commit({ ...files });
  return repo;
}

/** Makes a folder. */
export async function folder(dir: string, name: string): Promise<string> {
  const path = join(dir, name);
  await mkdir(path, { recursive: true });
  return path;
}
