import { silentLogger } from '../../src/lib/observe/log.js';
import { createGitSource } from '../../src/server/policy/source/git-source.js';

/** Fetches once, as a process of its own that a test can kill: arguments are the URL and the folder of the mirror. */
const [url = '', clonePath = ''] = process.argv.slice(2);
const source = createGitSource(
  { url, clonePath, branch: 'master', fetchTimeoutMs: 60_000, env: process.env },
  { log: silentLogger() },
);
await source.fetch(new AbortController().signal);
