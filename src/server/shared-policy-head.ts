import * as z from 'zod';
import { failureFields } from '../lib/errors.js';
import { parseJson } from '../lib/json.js';
import { jsonOrUndefined } from '../lib/json-text.js';
import type { Logger } from '../lib/log.js';
import { type CommitProblem, commitProblem } from '../wire/commit-problem.js';
import type { PolicyHead, UpdateLog } from './log/update-log.js';

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
  /** What the gate of an instance found in a commit last; undefined: nothing, or it is no longer remembered. */
  verdictOn(hash: string): SharedVerdict | undefined;
  /**
   * Makes a commit the head if no other instance changed a head, or refused a commit, since `seen`. `verdict`: what was found in it.
   * Rejects with `log_conflict` if one did, and like an append of the log.
   */
  propose(hash: string, seen: SeenHead, traceparent?: string, verdict?: SharedVerdict): Promise<void>;
  /** Lets every instance know what was found in a commit that is refused. Rejects like {@link propose}. */
  refuse(verdict: SharedVerdict, seen: SeenHead): Promise<void>;
  /** Calls `listener` with each new head of this source. Returns the unsubscribe function. */
  onChange(listener: (hash: string) => void): () => void;
  /** Calls `listener` with each commit of this source that an instance refuses. Returns the unsubscribe function. */
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
/** Older instances keep the verdicts, and know nothing of them. */
const headBody = z.looseObject({
  heads: z.array(sourceHead),
  /** The commit that the row was written for; older instances keep it, and know nothing of it. */
  about: z.string().optional().catch(undefined),
  verdicts: z.array(sourceVerdict).default([]).catch([]),
});
type HeadBody = z.infer<typeof headBody>;

/** The commit that a row of kind `policy` is about: the head that it made, or a commit that it refused; undefined: it does not say. */
export function commitOfRow(body: string): string | undefined {
  const { success, data } = headBody.safeParse(jsonOrUndefined(body));
  return success ? (data.about ?? data.heads[0]?.hash) : undefined;
}

/**
 * The {@link SharedPolicyHead} of a source over the update log. Each row has the heads of all sources, so that during a move to
 * another repository each instance follows its own.
 */
export function createSharedPolicyHead(
  options: {
    /** Name of the source, without secrets. */
    source: string;
    /** Whether a name means the same source. Default: only if the names are equal. */
    isSame?: (source: string) => boolean;
    isShared: boolean;
  },
  deps: { updateLog: Pick<UpdateLog, 'policy' | 'appendPolicy' | 'onPolicy'>; log: Logger },
): SharedPolicyHead {
  const { source, isSame = (other) => other === source, isShared } = options;
  const { updateLog, log } = deps;
  let read: { seq: number; body: HeadBody } | undefined;

  function bodyOf(row: PolicyHead | undefined): HeadBody {
    if (row === undefined) return { heads: [], verdicts: [] };
    if (read?.seq !== row.seq) read = { seq: row.seq, body: parsed(row) };
    return read.body;
  }

  function parsed({ seq, body }: PolicyHead): HeadBody {
    try {
      return headBody.parse(parseJson(body));
    } catch (error) {
      // The next proposal replaces the row; the source still has every commit.
      log.error({ seq, ...failureFields(error, 'stack') }, 'cannot read the policy heads of the update log');
      return { heads: [], verdicts: [] };
    }
  }

  const isOurs = (verdict: SourceVerdict, hash: string): boolean => verdict.hash === hash && isSame(verdict.source);

  /** The verdicts with another one in place of all former ones on its commit. */
  function verdictsWith({ verdicts }: HeadBody, hash: string, verdict: SharedVerdict | undefined): SourceVerdict[] {
    const others = verdicts.filter((one) => !isOurs(one, hash));
    const own = verdict === undefined ? [] : [{ source, ...verdict, problems: [...verdict.problems] }];
    return [...own, ...others].slice(0, VERDICTS_KEPT);
  }

  const ownHead = (row: PolicyHead | undefined): SharedHead | undefined =>
    bodyOf(row).heads.find((head) => isSame(head.source));

  return {
    isShared,
    look: () => ({ place: updateLog.policy?.seq ?? 0, head: ownHead(updateLog.policy) }),
    verdictOn: (hash) => bodyOf(updateLog.policy).verdicts.find((one) => isOurs(one, hash)),
    refuse: async (verdict, seen) => {
      const body = bodyOf(updateLog.policy);
      const verdicts = verdictsWith(body, verdict.hash, verdict);
      await updateLog.appendPolicy(JSON.stringify({ ...body, about: verdict.hash, verdicts }), seen.place);
    },
    propose: async (hash, seen, traceparent, verdict) => {
      // If the log has a newer row by now, the append below fails.
      const body = bodyOf(updateLog.policy);
      const { hash: old = null, earlier = [] } = seen.head ?? {};
      const own = {
        source,
        hash,
        old,
        traceparent,
        earlier: (old === null ? [] : [old, ...earlier]).filter((one) => one !== hash).slice(0, EARLIER_KEPT),
      };
      const heads = [own, ...body.heads.filter((head) => !isSame(head.source))].slice(0, SOURCES_KEPT);
      const verdicts = verdictsWith(body, hash, verdict);
      await updateLog.appendPolicy(JSON.stringify({ ...body, about: hash, heads, verdicts }), seen.place);
    },
    onChange: (listener) => {
      let last = ownHead(updateLog.policy)?.hash;
      return updateLog.onPolicy((row) => {
        const hash = ownHead(row)?.hash;
        if (hash === undefined || hash === last) return;
        last = hash;
        listener(hash);
      });
    },
    onRefused: (listener) => {
      const known = new Set(bodyOf(updateLog.policy).verdicts.map(({ hash }) => hash));
      return updateLog.onPolicy((row) => {
        const { verdicts, heads } = bodyOf(row);
        for (const { hash } of verdicts.filter((one) => isSame(one.source) && !known.has(one.hash))) {
          if (heads.every((head) => head.hash !== hash)) listener(hash);
        }
        known.clear();
        for (const { hash } of verdicts) known.add(hash);
      });
    },
  };
}
