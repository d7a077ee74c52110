import type { IncomingHttpHeaders } from 'node:http';
import { SyncError } from '../../lib/errors.js';
import { redactUrl } from '../../lib/log.js';
import { isRepository } from '../source/repository-address.js';
import type { WebhookParams } from './params.js';
import { type PayloadObject, type PushPayload, readPush, textAt } from './payload.js';
import { headerValue } from './verify.js';

/** Event of a request that names none (opal-protocol P2.4). */
const UNNAMED_EVENT = 'ping';
/** Maximum length of an event name in a response. */
const EVENT_LIMIT = 128;
const NAMED = 3;

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
  /** Why it leads to nothing, for the log; undefined for a push. */
  reason?: string;
}

/**
 * Judges a webhook whose sender is believed (opal-protocol P2.4). An event that is named and is no push is never an error,
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
    if (named !== undefined && !isPush) return { kind: 'other-repository', event, reason: otherEvent(params) };
    throw new SyncError('webhook_unreadable', 'repo url or full name not found in payload!');
  }
  if (onlyBranch !== undefined && !push.branches.includes(onlyBranch)) {
    const reason = `it is about ${listed(push.branches) || 'no branch'}, and only ${onlyBranch} counts (SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH)`;
    return { kind: 'other-branch', event, reason };
  }
  const matches = repoUrl !== undefined && (!params.match_sender_url || isRepository(repoUrl, push));
  if (!matches) return { kind: 'other-repository', event, reason: otherRepository(repoUrl, push) };
  return isPush ? { kind: 'push', event } : { kind: 'other-event', event, reason: otherEvent(params) };
}

function otherEvent({ push_event_value: pushes }: WebhookParams): string {
  return `only the event ${pushes} has the repository fetched`;
}

function otherRepository(repoUrl: string | undefined, { urls, names }: PushPayload): string {
  if (repoUrl === undefined) return 'SYNC_POLICY_REPO_URL is not set';
  const named = listed([...urls.map(redactUrl), ...names]);
  return `it is about ${named}, and ${redactUrl(repoUrl)} is followed (SYNC_POLICY_REPO_URL)`;
}

/** What a sender named, as far as a log line takes it. */
function listed(texts: readonly string[]): string {
  return [...new Set(texts)]
    .slice(0, NAMED)
    .map((text) => text.slice(0, EVENT_LIMIT))
    .join(', ');
}

/** The event that a request names: by header where one is configured, else by a key of its body. */
function eventOf(params: WebhookParams, headers: IncomingHttpHeaders, payload: PayloadObject): string | undefined {
  if (params.event_header_name !== null) return headerValue(headers, params.event_header_name) || undefined;
  return params.event_request_key === null ? undefined : textAt(payload, params.event_request_key);
}
