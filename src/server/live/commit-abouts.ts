import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import type { PolicyCommits } from '../policy/policy.js';
import type { CommitFacts } from '../policy/source/commit-facts.js';

/** Commits that are remembered. */
const KEPT = 200;
/** Commits that are read at once. */
const AT_ONCE = 60;
/** A missing commit is looked for again after this time: it may have been fetched. */
const AGAIN_MS = 30_000;

interface Asked {
  readonly facts: CommitFacts | undefined;
  readonly askedMs: number;
}

/** What the repository says of commits: read once. */
export class CommitAbouts {
  readonly #commits: PolicyCommits;
  readonly #log: Logger;
  readonly #asked = new Map<string, Asked>();
  #reading: Promise<void> | undefined;

  constructor(commits: PolicyCommits, log: Logger) {
    this.#commits = commits;
    this.#log = log;
  }

  /** What is known by now, by hash. */
  get known(): ReadonlyMap<string, CommitFacts> {
    return new Map([...this.#asked].flatMap(([hash, { facts }]) => (facts === undefined ? [] : [[hash, facts]])));
  }

  /** Reads what is not known yet of these commits. Undefined: nothing is missing. Never rejects. */
  read(hashes: readonly string[]): Promise<void> | undefined {
    if (this.#reading !== undefined) return this.#reading;
    const missing = hashes.filter((hash) => this.#isMissing(hash)).slice(0, AT_ONCE);
    if (missing.length === 0) return undefined;
    this.#reading = this.#read(missing).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  #isMissing(hash: string): boolean {
    const asked = this.#asked.get(hash);
    return asked === undefined || (asked.facts === undefined && performance.now() - asked.askedMs > AGAIN_MS);
  }

  async #read(hashes: readonly string[]): Promise<void> {
    const served = this.#commits.served();
    let found: ReadonlyMap<string, CommitFacts> = new Map();
    try {
      // What clients get is the difference to the commit that was served before.
      found = await this.#commits.about(
        hashes.map((hash) => ({ hash, base: served.includes(hash) ? served[served.indexOf(hash) + 1] : served[0] })),
      );
    } catch (error) {
      this.#log.debug(failureFields(error), 'cannot read what the repository says of policy commits');
    }
    for (const hash of hashes) this.#asked.set(hash, { facts: found.get(hash), askedMs: performance.now() });
    for (const [hash] of this.#asked) {
      if (this.#asked.size <= KEPT) break;
      this.#asked.delete(hash);
    }
  }
}
