import type { IncomingHttpHeaders } from 'node:http';
import { SyncError } from '../../lib/errors.js';
import { isRepository } from './match.js';
import type { WebhookParams } from './params.js';
import { type PayloadObject, readPush, textAt } from './payload.js';
import { headerValue } from './verify.js';

/** Event of a request that names none (protocol-facts 2.4). */
const UNNAMED_EVENT = 'ping';
/** Longest name of an event that is repeated in an answer. */
const EVENT_LIMIT = 128;

/** What webhooks are judged by. */
export interface WebhookRules {
  params: WebhookParams;
  /** SYNC_POLICY_REPO_URL. */
  repoUrl: string | undefined;
  /** Only pushes to this branch count; undefined: all do. */
  onlyBranch: string | undefined;
}

/** What becomes of a webhook. Only `push` leads to a look at the repository. */
export interface Verdict {
  kind: 'push' | 'other-event' | 'other-branch' | 'other-repository';
  event: string;
}

/**
 * Judges a webhook whose sender is believed (protocol-facts 2.4). An event that is named and is no push is never an error,
 * since not every one has a repository. Throws `webhook_unreadable` (400) for a push that names no repository where that
 * matters.
 */
export function judgeWebhook(rules: WebhookRules, headers: IncomingHttpHeaders, payload: PayloadObject): Verdict {
  const { params, repoUrl, onlyBranch } = rules;
  const named = eventOf(params, headers, payload);
  const isPush = named === params.push_event_value;
  const event = isPush ? named : (named ?? UNNAMED_EVENT).slice(0, EVENT_LIMIT);
  const push = readPush(payload);

  const namesNone = push.urls.length === 0 && push.names.length === 0;
  if (params.match_sender_url && namesNone) {
    if (named !== undefined && !isPush) return { kind: 'other-repository', event };
    throw new SyncError('webhook_unreadable', 'repo url or full name not found in payload!');
  }
  if (onlyBranch !== undefined && !push.branches.includes(onlyBranch)) return { kind: 'other-branch', event };
  const matches = repoUrl !== undefined && (!params.match_sender_url || isRepository(repoUrl, push));
  if (!matches) return { kind: 'other-repository', event };
  return { kind: isPush ? 'push' : 'other-event', event };
}

/** The event that a request names: by header where one is configured, else by a key of its body. */
function eventOf(params: WebhookParams, headers: IncomingHttpHeaders, payload: PayloadObject): string | undefined {
  if (params.event_header_name !== null) return headerValue(headers, params.event_header_name) || undefined;
  return params.event_request_key === null ? undefined : textAt(payload, params.event_request_key);
}
