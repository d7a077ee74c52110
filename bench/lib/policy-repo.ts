import { dataFiles, modules } from './modules.js';
import { pushed } from './push.js';
import type { Bench } from './scenario.js';
import { folder, repository, type Stage } from './stage.js';
import { type Server, type System, startServer } from './system.js';
import { pause } from './wait.js';

/** As the largest policy repositories are. */
const MODULES = 5_000;
const DATA_FILES = 1_000;
/** A directory of its own: its small bundle tells which commit is served, without the large one being made. */
const SIGN = 'sign';
const SERVED_MS = 30_000;
const LOOK_EVERY_MS = 20;

/** Files of a large repository; a quick run has a fifth of them. */
export function largeRepository(bench: Bench): Record<string, string> {
  return {
    ...modules(bench.pick(MODULES, MODULES / 5)),
    ...dataFiles(bench.pick(DATA_FILES, DATA_FILES / 5)),
    [`${SIGN}/sign.rego`]: 'package sign\n',
  };
}

/** A server with a large repository. */
export interface ServedRepository {
  readonly server: Server;
  /** Commits changes and returns the commit once it is what the server serves. */
  commit(files: Readonly<Record<string, string>>): Promise<string>;
}

/** Starts a server of a large repository, and waits until that is served. */
export async function serveLargeRepository(bench: Bench, system: System): Promise<ServedRepository> {
  const repo: Stage['repo'] = await repository(bench.dir, largeRepository(bench));
  const dir = await folder(bench.dir, 'server');
  // All requests are of one address, and a fast machine asks more often than it may by default. Counting them stays a part of the work.
  const own = { policysync: { RATE_LIMIT: '1000000 per second' } };
  const server = bench.keep(await startServer(system, { dir, repoUrl: repo.url, own }));
  await served(server, await repo.git('rev-parse', 'HEAD'));
  return {
    server,
    commit: async (files) => {
      const commit = await repo.commit({ ...files });
      await pushed(server.url, repo.path);
      await served(server, commit);
      return commit;
    },
  };
}

async function served(server: Server, commit: string): Promise<void> {
  const deadline = performance.now() + SERVED_MS;
  for (;;) {
    const answer = await fetch(`${server.url}/policy?path=${SIGN}`);
    const text = await answer.text();
    if (answer.status === 200 && text.includes(`"hash":"${commit}"`)) return;
    if (performance.now() > deadline) throw new Error(`commit ${commit} is not served: ${answer.status}`);
    server.mustRun();
    await pause(LOOK_EVERY_MS);
  }
}
