import type { IncomingHttpHeaders } from 'node:http';
import { asUtf8 } from '../../../http/body-charset.js';
import { invalidRequest } from '../../../http/json-body.js';
import { SyncError } from '../../../lib/errors.js';
import { isRecord } from '../../../lib/json/is-record.js';
import { parseJson } from '../../../lib/json/json.js';
import { redactUrl } from '../../../lib/observe/log.js';
import type { NamedCommit } from '../source/awaited-commit.js';
import { isRepository, type NamedRepository } from '../source/repository-address.js';
import type { WebhookParams } from './params.js';
import { headerValue } from './verify.js';

/** The body of a webhook: any JSON object. */
export type PayloadObject = Readonly<Record<string, unknown>>;

/** What the payload of a push contains. */
export interface PushPayload extends NamedRepository {
  /** Short names of the branches that were pushed; `refs/tags/x` for a tag. */
  readonly branches: readonly string[];
}

/**
 * What a payload may have: without a secret anybody may send one. A push of thousands of commits
 * has some 100,000 values.
 */
const PAYLOAD_LIMITS = { depth: 100, values: 300_000 };
/** Of a sender that knows the secret: a value for every 25 bytes of the largest. */
const KNOWN_SENDER_LIMITS = { depth: 100, values: 1_000_000 };

const FORM_MEDIA_TYPE = /^application\/x-www-form-urlencoded\s*(;|$)/i;

/**
 * Paths of the repository's URLs (opal-protocol P2.4; the last three are for Azure DevOps and
 * Bitbucket).
 */
const URL_PLACES: readonly (readonly string[])[] = [
  ['repository', 'git_url'],
  ['repository', 'ssh_url'],
  ['repository', 'clone_url'],
  ['repository', 'git_ssh_url'],
  ['repository', 'git_http_url'],
  ['repository', 'url'],
  ['project', 'git_http_url'],
  ['project', 'git_ssh_url'],
  ['resource', 'repository', 'remoteUrl'],
  ['resource', 'repository', 'sshUrl'],
  ['repository', 'links', 'html', 'href'],
];

/** Paths of the branch that a repository has as its default. */
const DEFAULT_BRANCH_PLACES: readonly (readonly string[])[] = [
  ['repository', 'default_branch'],
  ['project', 'default_branch'],
  ['resource', 'repository', 'defaultBranch'],
];

/** Paths of the repository's names. */
const NAME_PLACES: readonly (readonly string[])[] = [
  ['project', 'path_with_namespace'],
  ['repository', 'full_name'],
];

/**
 * Parses the JSON object in a body: the body itself, or the form field `payload`, GitHub's default.
 * Throws `request_invalid`: 422 if there is none, 415 for an unknown charset.
 */
export function parsePayload(contentType: string | undefined, body: Buffer, isKnown = false): PayloadObject {
  let value: unknown;
  const utf8 = asUtf8(contentType, body);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(utf8);
    const json = FORM_MEDIA_TYPE.test(contentType ?? '') ? formField(text) : text;
    value = parseJson(json, isKnown ? KNOWN_SENDER_LIMITS : PAYLOAD_LIMITS);
  } catch (cause) {
    throw unreadable('the body is not JSON', 'value_error.jsondecode', cause);
  }
  if (!isRecord(value)) throw unreadable('the body is not a JSON object', 'type_error.dict', undefined);
  return value;
}

/**
 * Reads the payload of a push from GitHub (`ref`, `repository`), GitLab (`ref`, `project`), Azure
 * DevOps (`resource`), Bitbucket (`push.changes`), Bitbucket Data Center (`changes`), or a
 * compatible service. Never throws: ignores members of an unexpected type.
 */
export function readPush(payload: PayloadObject): PushPayload {
  return {
    urls: [...new Set([...textsAt(payload, URL_PLACES), ...cloneUrls(payload)])],
    names: [...textsAt(payload, NAME_PLACES), ...projectNames(payload)],
    branches: pushedRefs(payload).map((ref) => ref.replace(/^refs\/heads\//, '')),
  };
}

/** Addresses of Bitbucket Data Center, where it gives them. */
function cloneUrls(payload: PayloadObject): string[] {
  const links = [valueAt(payload, ['repository', 'links', 'clone'])].flat().slice(0, NAMED);
  return links.map((link) => textAt(link, 'href')).filter((href) => href !== undefined);
}

/** Names of Bitbucket Data Center: as ssh has them, and as https does. */
function projectNames(payload: PayloadObject): string[] {
  const [key, slug] = [textAt(payload, 'repository', 'project', 'key'), textAt(payload, 'repository', 'slug')];
  return key === undefined || slug === undefined ? [] : [`${key}/${slug}`, `scm/${key}/${slug}`];
}

/** What is known of the branch that is followed. */
export interface FollowedBranch {
  /** SYNC_POLICY_REPO_MAIN_BRANCH; undefined: the default branch of the repository. */
  readonly named: string | undefined;
  /** The default branch, as it was when the repository was asked. */
  readonly byDefault?: string | undefined;
}

/**
 * The name of the branch that is followed: a payload knows the default of today. Undefined: nobody
 * knows it.
 */
export function followedBranch(payload: PayloadObject, { named, byDefault }: FollowedBranch): string | undefined {
  return named ?? textsAt(payload, DEFAULT_BRANCH_PLACES)[0]?.replace(/^refs\/heads\//, '') ?? byDefault;
}

/** A commit id of git; a branch that is deleted has zeros in its place. */
const COMMIT = /^(?!0{40}(?:0{24})?$)(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/**
 * The commit to which a push moves a branch, and the one before, as GitHub, Gitea and GitLab
 * (`after`), Azure DevOps (`newObjectId`), Bitbucket (`new.target.hash`) and Bitbucket Data Center
 * (`toHash`) name them. Undefined: it names none, or the branch is deleted.
 */
export function pushedCommit(payload: PayloadObject, branch: string | undefined): NamedCommit | undefined {
  if (branch === undefined) return undefined;
  const moves: readonly (readonly [ref: string | undefined, to: string | undefined, from: string | undefined])[] = [
    [textAt(payload, 'ref'), textAt(payload, 'after'), textAt(payload, 'before')],
    ...refUpdates(payload).map(
      (update) => [textAt(update, 'name'), textAt(update, 'newObjectId'), textAt(update, 'oldObjectId')] as const,
    ),
    ...cloudChanges(payload).map(
      (change) =>
        [
          changedRef(change, 'new'),
          textAt(change, 'new', 'target', 'hash'),
          textAt(change, 'old', 'target', 'hash'),
        ] as const,
    ),
    ...serverChanges(payload).map(
      (change) => [textAt(change, 'ref', 'id'), textAt(change, 'toHash'), textAt(change, 'fromHash')] as const,
    ),
  ];
  const [, to, from] = moves.findLast(([ref]) => ref?.replace(/^refs\/heads\//, '') === branch) ?? [];
  const [hash, before] = [to?.toLowerCase(), from?.toLowerCase()];
  if (hash === undefined || !COMMIT.test(hash)) return undefined;
  return before !== undefined && COMMIT.test(before) ? { hash, before } : { hash };
}

function refUpdates(payload: PayloadObject): unknown[] {
  return [valueAt(payload, ['refUpdates']), valueAt(payload, ['resource', 'refUpdates'])].flat();
}

function cloudChanges(payload: PayloadObject): unknown[] {
  return [valueAt(payload, ['push', 'changes'])].flat();
}

function serverChanges(payload: PayloadObject): unknown[] {
  return [valueAt(payload, ['changes'])].flat();
}

/** Returns the text at a path; undefined if it is missing, empty or not a string. */
export function textAt(value: unknown, ...place: readonly string[]): string | undefined {
  const found = valueAt(value, place);
  return typeof found === 'string' && found !== '' ? found : undefined;
}

function pushedRefs(payload: PayloadObject): string[] {
  return [
    textAt(payload, 'ref'),
    ...refUpdates(payload).map((update) => textAt(update, 'name')),
    // `new` is null for a branch that was deleted.
    ...cloudChanges(payload).flatMap((change) => [changedRef(change, 'new'), changedRef(change, 'old')]),
    ...serverChanges(payload).map((change) => textAt(change, 'ref', 'id')),
  ].filter((ref) => ref !== undefined);
}

/** Bitbucket gives branches and tags the same form of name, and the type in a separate member. */
function changedRef(change: unknown, side: 'new' | 'old'): string | undefined {
  const name = textAt(change, side, 'name');
  return name !== undefined && textAt(change, side, 'type')?.endsWith('tag') ? `refs/tags/${name}` : name;
}

function textsAt(payload: PayloadObject, places: readonly (readonly string[])[]): string[] {
  const found = places.map((place) => textAt(payload, ...place)).filter((text) => text !== undefined);
  return [...new Set(found)];
}

function valueAt(value: unknown, place: readonly string[]): unknown {
  let at = value;
  for (const name of place) at = isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  return at;
}

/** Returns the field `payload` of a form. Throws if it is missing or wrongly encoded. */
function formField(text: string): string {
  const encoded = /(?:^|&)payload=([^&]*)/.exec(text)?.[1];
  if (encoded === undefined) throw new Error('the form has no field "payload"');
  return decodeURIComponent(encoded.replaceAll('+', ' '));
}

/** The response must not repeat the body. */
function unreadable(msg: string, type: string, cause: unknown): SyncError {
  const error = invalidRequest([{ loc: ['body'], msg, type }], msg);
  if (cause !== undefined) error.cause = cause;
  return error;
}

/** Event of a request without one (opal-protocol P2.4). */
const UNNAMED_EVENT = 'ping';
/** Maximum length of an event name in a response. */
const EVENT_LIMIT = 128;
const NAMED = 3;

export interface WebhookRules {
  params: WebhookParams;
  /** SYNC_POLICY_REPO_URL. */
  repoUrl: string | undefined;
  branch: FollowedBranch;
  /** Whether only pushes to that branch count. One whose branch is not known counts. */
  enforceBranch: boolean;
}

/** The verdict on a webhook. Only `push` triggers a fetch of the repository. */
export interface WebhookVerdict {
  kind: 'push' | 'other-event' | 'other-branch' | 'other-repository';
  event: string;
  /** Why it is ignored, for the log; undefined for a push. */
  reason?: string;
}

/**
 * Judges a webhook from an authenticated sender (opal-protocol P2.4). A named event other than a
 * push is never an error: some have no repository. Throws `webhook_unreadable` (400) for a push
 * without a repository if it must match.
 */
export function judgeWebhook(
  rules: WebhookRules,
  headers: IncomingHttpHeaders,
  payload: PayloadObject,
): WebhookVerdict {
  const { params, repoUrl, enforceBranch } = rules;
  const named = eventOf(params, headers, payload);
  const isPush = named === params.push_event_value;
  const event = isPush ? named : (named ?? UNNAMED_EVENT).slice(0, EVENT_LIMIT);
  const push = readPush(payload);

  const namesNone = push.urls.length === 0 && push.names.length === 0;
  if (params.match_sender_url && namesNone) {
    if (named !== undefined && !isPush) return { kind: 'other-repository', event, reason: otherEvent(params) };
    throw new SyncError('webhook_unreadable', 'repo url or full name not found in payload!');
  }
  const onlyBranch = enforceBranch ? followedBranch(payload, rules.branch) : undefined;
  if (onlyBranch !== undefined && push.branches.length > 0 && !push.branches.includes(onlyBranch)) {
    const reason = `it is about ${listed(push.branches)}, and only ${onlyBranch} counts (SYNC_POLICY_REPO_WEBHOOK_ENFORCE_BRANCH)`;
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

/** Joins texts of a sender, bounded for a log line. */
function listed(texts: readonly string[]): string {
  return [...new Set(texts)]
    .slice(0, NAMED)
    .map((text) => text.slice(0, EVENT_LIMIT))
    .join(', ');
}

/**
 * Returns the event of a request, from the header if one is configured, otherwise from a key of its
 * body.
 */
function eventOf(params: WebhookParams, headers: IncomingHttpHeaders, payload: PayloadObject): string | undefined {
  if (params.event_header_name !== null) return headerValue(headers, params.event_header_name) || undefined;
  return params.event_request_key === null ? undefined : textAt(payload, params.event_request_key);
}
