import { invalidRequest } from '../../http/json-body.js';
import type { SyncError } from '../../lib/errors.js';
import type { NamedRepository } from '../source/repository-address.js';

/** The body of a webhook: a JSON object of which nothing else is known. */
export type PayloadObject = Readonly<Record<string, unknown>>;

/** What the payload of a push contains. */
export interface PushPayload extends NamedRepository {
  /** Short names of the branches that were pushed; `refs/tags/x` for a tag. */
  readonly branches: readonly string[];
}

const FORM_MEDIA_TYPE = /^application\/x-www-form-urlencoded\s*(;|$)/i;

/** Places of the repository's URLs, by member names (opal-protocol P2.4; the last two of Azure DevOps and Bitbucket). */
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

/** Places of its names. */
const NAME_PLACES: readonly (readonly string[])[] = [
  ['project', 'path_with_namespace'],
  ['repository', 'full_name'],
];

/**
 * The JSON object in a body: the body itself, or the form field `payload`, which is what GitHub sends unless it is told
 * otherwise. Throws `request_invalid` (422) where there is none.
 */
export function parsePayload(contentType: string | undefined, body: Buffer): PayloadObject {
  let value: unknown;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    value = JSON.parse(FORM_MEDIA_TYPE.test(contentType ?? '') ? formField(text) : text);
  } catch (cause) {
    throw unreadable('the body is not JSON', 'value_error.jsondecode', cause);
  }
  if (!isObject(value)) throw unreadable('the body is not a JSON object', 'type_error.dict', undefined);
  return value;
}

/**
 * Reads the payload of a push of GitHub (`ref`, `repository`), GitLab (`ref`, `project`), Azure DevOps (`resource`), Bitbucket
 * (`push.changes`), or one that looks like them. Never throws: what is missing or of another type is not there.
 */
export function readPush(payload: PayloadObject): PushPayload {
  return {
    urls: textsAt(payload, URL_PLACES),
    names: textsAt(payload, NAME_PLACES),
    branches: pushedRefs(payload).map((ref) => ref.replace(/^refs\/heads\//, '')),
  };
}

/** The text at a place; undefined where there is none, or something else than a text that is not empty. */
export function textAt(value: unknown, ...place: readonly string[]): string | undefined {
  const found = valueAt(value, place);
  return typeof found === 'string' && found !== '' ? found : undefined;
}

function pushedRefs(payload: PayloadObject): string[] {
  const updates = [valueAt(payload, ['refUpdates']), valueAt(payload, ['resource', 'refUpdates'])].flat();
  const changes = [valueAt(payload, ['push', 'changes'])].flat();
  return [
    textAt(payload, 'ref'),
    ...updates.map((update) => textAt(update, 'name')),
    // `new` is null for a branch that was deleted.
    ...changes.flatMap((change) => [changedRef(change, 'new'), changedRef(change, 'old')]),
  ].filter((ref) => ref !== undefined);
}

/** Bitbucket names branches and tags alike, with the type beside the name. */
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
  for (const name of place) at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  return at;
}

function isObject(value: unknown): value is PayloadObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The field `payload` of a form. Throws where there is none, or one that is not encoded as it should be. */
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
