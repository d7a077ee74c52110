import * as z from 'zod';
import { failureFields } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import type { Logger } from '../../../lib/observe/log.js';
import { type CommitProblem, commitProblem } from '../../../wire/commit-problem.js';
import type { PolicyHead, PolicyLog } from '../../log/update-log.js';

/** What the server instances agreed on for one policy source. */
export interface SharedHead {
  /** The commit that every instance serves. */
  readonly hash: string;
  /** The previous {@link EARLIER_KEPT} heads, newest first. */
  readonly earlier: readonly string[];
  /** The span of the instance that proposed it. */
  readonly traceparent?: string | undefined;
}

/** What the gate of an instance found in a commit. */
export interface SharedVerdict {
  readonly hash: string;
  /** {@link CommitGate.judge}: a gate with other checks does not count it. */
  readonly judge: string;
  readonly problems: readonly CommitProblem[];
}

/** The agreed head at one moment, and the position that a proposal is compared with. */
export interface SeenHead {
  /** The last policy row of any source; 0: there is none. */
  readonly place: number;
  /** Undefined: the instances have not agreed on a head of this source yet. */
  readonly head: SharedHead | undefined;
}

/** The head of one policy source in the update log (design D24). */
export interface SharedPolicyHead {
  /** False: this is the only instance. */
  readonly isShared: boolean;
  look(): SeenHead;
  /** What a gate found in a commit last; undefined: nothing, or it is no longer remembered. */
  verdictOn(hash: string): SharedVerdict | undefined;
  /**
   * Makes a commit the head if no other instance changed a head, or refused a commit, since `seen`.
   * `verdict`: what was found in it. Rejects with `log_conflict` if one did, and like an append of
   * the log.
   */
  propose(hash: string, seen: SeenHead, traceparent?: string, verdict?: SharedVerdict): Promise<void>;
  /** Lets every instance know what was found in a refused commit. Rejects like {@link propose}. */
  refuse(verdict: SharedVerdict, seen: SeenHead): Promise<void>;
  /** Calls `listener` with each new head of this source. Returns the unsubscribe function. */
  onChange(listener: (hash: string) => void): () => void;
  /**
   * Calls `listener` with each commit of this source that an instance refuses. Returns the
   * unsubscribe function.
   */
  onRefused(listener: (hash: string) => void): () => void;
}

/** Maximum sources in one row: there are several while instances move to another repository. */
const SOURCES_KEPT = 8;
/** Earlier heads to keep, so that an archive that reappears is not taken for a new one. */
const EARLIER_KEPT = 50;
/** Verdicts of all sources in one row. */
const VERDICTS_KEPT = 8;

const sourceHead = z.looseObject({
  source: z.string(),
  hash: z.string(),
  earlier: z.array(z.string()).default([]),
  traceparent: z.string().optional().catch(undefined),
});
const sourceVerdict = z.looseObject({
  source: z.string(),
  hash: z.string(),
  judge: z.string(),
  problems: z.array(commitProblem),
});
type SourceVerdict = z.infer<typeof sourceVerdict>;
const headBody = z.looseObject({
  heads: z.array(sourceHead),
  /** The commit that the row was written for. */
  about: z.string().optional().catch(undefined),
  verdicts: z.array(sourceVerdict).default([]).catch([]),
});
type HeadBody = z.infer<typeof headBody>;

/**
 * The commit that a row of kind `policy` is about: the head that it made, or a commit that it
 * refused; undefined: it does not say.
 */
export function commitOfRow(body: string): string | undefined {
  const { success, data } = headBody.safeParse(jsonOrUndefined(body));
  return success ? (data.about ?? data.heads[0]?.hash) : undefined;
}

interface LoggedHeadOptions {
  /** Name of the source, without secrets. */
  readonly source: string;
  /** Whether a name means the same source. Default: only if the names are equal. */
  readonly isSame?: (source: string) => boolean;
  /** False: this is the only instance. */
  readonly isShared: boolean;
}

/**
 * A {@link SharedPolicyHead} over the update log. Each row has the heads of all sources, so that
 * during a move to another repository each instance follows its own.
 */
export class LoggedPolicyHead implements SharedPolicyHead {
  readonly isShared: boolean;
  readonly #source: string;
  readonly #isSame: (source: string) => boolean;
  readonly #updateLog: PolicyLog;
  readonly #log: Logger;
  #read: { seq: number; body: HeadBody } | undefined;

  constructor(options: LoggedHeadOptions, deps: { updateLog: PolicyLog; log: Logger }) {
    const { source, isSame = (other) => other === source, isShared } = options;
    this.isShared = isShared;
    this.#source = source;
    this.#isSame = isSame;
    this.#updateLog = deps.updateLog;
    this.#log = deps.log;
  }

  look(): SeenHead {
    const { policy } = this.#updateLog;
    return { place: policy?.seq ?? 0, head: this.#ownHead(policy) };
  }

  verdictOn(hash: string): SharedVerdict | undefined {
    return this.#lastBody().verdicts.find((one) => this.#isOurs(one, hash));
  }

  async propose(hash: string, seen: SeenHead, traceparent?: string, verdict?: SharedVerdict): Promise<void> {
    // If the log has a newer row by now, the append fails.
    const body = this.#lastBody();
    const { hash: old = null, earlier = [] } = seen.head ?? {};
    const before = (old === null ? [] : [old, ...earlier]).filter((one) => one !== hash);
    const own = { source: this.#source, hash, old, traceparent, earlier: before.slice(0, EARLIER_KEPT) };
    const heads = [own, ...body.heads.filter((head) => !this.#isSame(head.source))].slice(0, SOURCES_KEPT);
    await this.#append({ ...body, about: hash, heads, verdicts: this.#verdictsWith(hash, verdict) }, seen);
  }

  async refuse(verdict: SharedVerdict, seen: SeenHead): Promise<void> {
    const { hash } = verdict;
    await this.#append({ ...this.#lastBody(), about: hash, verdicts: this.#verdictsWith(hash, verdict) }, seen);
  }

  onChange(listener: (hash: string) => void): () => void {
    let last = this.#ownHead(this.#updateLog.policy)?.hash;
    return this.#updateLog.onPolicy((row) => {
      const hash = this.#ownHead(row)?.hash;
      if (hash === undefined || hash === last) return;
      last = hash;
      listener(hash);
    });
  }

  onRefused(listener: (hash: string) => void): () => void {
    const known = new Set(this.#lastBody().verdicts.map(({ hash }) => hash));
    return this.#updateLog.onPolicy((row) => {
      const { verdicts, heads } = this.#bodyOf(row);
      for (const { hash } of verdicts.filter((one) => this.#isSame(one.source) && !known.has(one.hash))) {
        if (heads.every((head) => head.hash !== hash)) listener(hash);
      }
      known.clear();
      for (const { hash } of verdicts) known.add(hash);
    });
  }

  async #append(body: HeadBody, { place }: SeenHead): Promise<void> {
    await this.#updateLog.appendPolicy(JSON.stringify(body), place);
  }

  #lastBody(): HeadBody {
    return this.#bodyOf(this.#updateLog.policy);
  }

  #bodyOf(row: PolicyHead | undefined): HeadBody {
    if (row === undefined) return { heads: [], verdicts: [] };
    if (this.#read?.seq !== row.seq) this.#read = { seq: row.seq, body: this.#parsed(row) };
    return this.#read.body;
  }

  #parsed({ seq, body }: PolicyHead): HeadBody {
    try {
      return headBody.parse(parseJson(body));
    } catch (error) {
      // The next proposal replaces the row; the source still has every commit.
      this.#log.error({ seq, ...failureFields(error, 'stack') }, 'cannot read the policy heads of the update log');
      return { heads: [], verdicts: [] };
    }
  }

  #ownHead(row: PolicyHead | undefined): SharedHead | undefined {
    return this.#bodyOf(row).heads.find((head) => this.#isSame(head.source));
  }

  #isOurs(verdict: SourceVerdict, hash: string): boolean {
    return verdict.hash === hash && this.#isSame(verdict.source);
  }

  /** The verdicts with another one in place of all former ones on its commit. */
  #verdictsWith(hash: string, verdict: SharedVerdict | undefined): SourceVerdict[] {
    const others = this.#lastBody().verdicts.filter((one) => !this.#isOurs(one, hash));
    const own = verdict === undefined ? [] : [{ source: this.#source, ...verdict, problems: [...verdict.problems] }];
    return [...own, ...others].slice(0, VERDICTS_KEPT);
  }
}
