import { randomUUID } from 'node:crypto';
import { field, postJson } from './http.js';

/** Publishers that write to their own paths, one after the other, until they are told to stop. */
export interface Load {
  /** For each path the last value that was acknowledged, and its place. */
  readonly acknowledged: ReadonlyMap<string, { value: number; seq: number }>;
  /** Every place that was acknowledged. */
  readonly seqs: readonly number[];
  /** Statuses of the answers that were no 200, with their `Retry-After`; 0 for no answer at all. */
  readonly refusals: readonly { status: number; retryAfter: string | null; url: string }[];
  /** Lets each finish what it is at: an update that was begun is tried until it is acknowledged. */
  stop(): Promise<void>;
}

/** Starts `count` publishers, spread over the servers; each has at most one update under way. */
export function startLoad(servers: readonly string[], count: number, topic: string): Load {
  const acknowledged = new Map<string, { value: number; seq: number }>();
  const seqs: number[] = [];
  const refusals: { status: number; retryAfter: string | null; url: string }[] = [];
  let isStopped = false;

  async function publishUntilTaken(url: string, path: string, value: number): Promise<void> {
    const key = randomUUID();
    const body = { entries: [{ url: '', topics: [topic], dst_path: path, data: value }], reason: 'load' };
    for (;;) {
      // No answer is as good as a refusal: the key makes the repetition harmless.
      const answer = await postJson(`${url}/data/config`, body, { 'idempotency-key': key }).catch(() => undefined);
      if (answer?.status === 200) {
        const seq = Number(field(answer.json, 'seq'));
        acknowledged.set(path, { value, seq });
        seqs.push(seq);
        return;
      }
      refusals.push({ status: answer?.status ?? 0, retryAfter: answer?.headers.get('retry-after') ?? null, url });
      await pause(200);
    }
  }

  async function publisher(at: number): Promise<void> {
    const url = servers[at % servers.length] ?? '';
    for (let value = 1; !isStopped; value++) {
      await publishUntilTaken(url, `/load/p${at}`, value);
      await pause(20);
    }
  }

  const running = Promise.all(Array.from({ length: count }, (_, at) => publisher(at)));
  return {
    acknowledged,
    seqs,
    refusals,
    stop: async () => {
      isStopped = true;
      await running;
    },
  };
}

/** A publisher's own pace. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
