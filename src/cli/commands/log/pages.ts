import * as z from 'zod';
import { serverAddress } from '../../../lib/net/server-address.js';
import { parsedAnswer } from '../../kit/all-clients.js';
import { askServer } from '../../kit/server-fetch.js';
import type { ServerTarget } from '../../kit/server-target.js';

/** What is shown of one update of `GET /data/log`. */
const loggedUpdate = z.looseObject({
  seq: z.number(),
  time: z.string(),
  publisher: z.string().nullish(),
  reason: z.string().nullish(),
  entries: z.array(
    z.looseObject({
      url: z.string(),
      topics: z.array(z.string()),
      dst_path: z.string(),
      save_method: z.string(),
      data_bytes: z.number().optional(),
    }),
  ),
});
export type LoggedUpdate = z.infer<typeof loggedUpdate>;

const page = z.object({
  epoch: z.string(),
  head: z.number(),
  updates: z.array(loggedUpdate),
  next: z.number().nullish(),
});

/** Updates of the log, newest first. */
export interface LogListing {
  readonly epoch: string;
  readonly head: number;
  readonly updates: readonly LoggedUpdate[];
}

/**
 * Which updates are wanted: the filters of `GET /data/log`, at most `limit` of them, all newer than
 * the seq `after`.
 */
export interface LogQuery {
  readonly filters: Readonly<Record<string, string>>;
  readonly limit: number;
  readonly after: number;
}

/** Largest page of the server. */
const PAGE = 1000;

/** Reads as many pages of `GET /data/log` as it takes. */
export async function readLog(target: ServerTarget, query: LogQuery, env: NodeJS.ProcessEnv): Promise<LogListing> {
  const updates: LoggedUpdate[] = [];
  for (let before: number | undefined; ; ) {
    const parameters = new URLSearchParams(query.filters);
    parameters.set('limit', String(Math.min(PAGE, query.limit - updates.length)));
    if (before !== undefined) parameters.set('before', String(before));
    const url = serverAddress(target.url, '/data/log', parameters);
    const { text } = await askServer({ url, token: target.token }, { code: 'server_refused' }, env);
    const { next, ...part } = parsedAnswer(page, text, url);
    const newer = part.updates.filter(({ seq }) => seq > query.after);
    updates.push(...newer);
    const isAll = next == null || next <= query.after + 1 || newer.length < part.updates.length;
    if (isAll || updates.length >= query.limit) return { ...part, updates };
    before = next;
  }
}
