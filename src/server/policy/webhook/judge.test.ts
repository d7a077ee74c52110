import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../../../test/support/any-character.js';
import { SyncError } from '../../../lib/errors.js';
import {
  followedBranch,
  judgeWebhook,
  parsePayload,
  pushedCommit,
  readPush,
  type WebhookRules,
  type WebhookVerdict,
} from './judge.js';
import { WEBHOOK_PRESETS, type WebhookPreset } from './params.js';

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';

test('a payload is a JSON object, whatever its content type says, or the form field "payload"', () => {
  const text = '{"ref":"refs/heads/a b+c&d","n":"é"}';
  const form = `x=1&payload=${encodeURIComponent(text).replaceAll('%20', '+')}&y=payload`;
  for (const type of [JSON_TYPE, `${JSON_TYPE}; charset=utf-8`, 'text/plain', undefined]) {
    assert.deepEqual(parsePayload(type, Buffer.from(text)), JSON.parse(text));
  }
  assert.deepEqual(parsePayload(FORM_TYPE, Buffer.from(form)), JSON.parse(text));
  assert.deepEqual(parsePayload(`${FORM_TYPE}; charset=utf-8`, Buffer.from(form)), JSON.parse(text));
});

test('a body that is no JSON object is refused with 422, without repeating it', () => {
  const bodies: [string, string | Buffer][] = [
    [JSON_TYPE, ''],
    [JSON_TYPE, 'secret'],
    [JSON_TYPE, '{"secret":1'],
    [JSON_TYPE, '[{"secret":1}]'],
    [JSON_TYPE, 'null'],
    [JSON_TYPE, '"secret"'],
    [JSON_TYPE, Buffer.from([0x7b, 0xff, 0x7d])],
    [JSON_TYPE, '['.repeat(1_000_000)],
    [FORM_TYPE, 'x=secret'],
    [FORM_TYPE, 'payload='],
    [FORM_TYPE, 'payload=%7'],
    [FORM_TYPE, '{}'],
  ];
  for (const [type, body] of bodies) {
    assert.throws(
      () => parsePayload(type, Buffer.from(body)),
      (error: unknown) => {
        assert(error instanceof SyncError);
        assert.deepEqual([error.code, error.status], ['request_invalid', 422]);
        return !/secret/.test(error.message + JSON.stringify(error.detail));
      },
      String(body).slice(0, 20),
    );
  }
});

test('URLs, names and branches are found where each service has them', () => {
  const rows: [object, { urls?: string[]; names?: string[]; branches?: string[] }][] = [
    [{ ref: 'refs/heads/a/b' }, { branches: ['a/b'] }],
    [{ ref: 'refs/tags/v1' }, { branches: ['refs/tags/v1'] }],
    [{ refUpdates: { name: 'refs/heads/x' } }, { branches: ['x'] }],
    [{ refUpdates: [{ name: 'refs/heads/x' }, { name: 'refs/heads/y' }] }, { branches: ['x', 'y'] }],
    [{ resource: { refUpdates: [{ name: 'refs/heads/x' }] } }, { branches: ['x'] }],
    [{ push: { changes: [{ new: { type: 'branch', name: 'x' }, old: null }] } }, { branches: ['x'] }],
    [{ push: { changes: [{ new: null, old: { type: 'branch', name: 'x' } }] } }, { branches: ['x'] }],
    [{ push: { changes: [{ new: { type: 'tag', name: 'x' } }] } }, { branches: ['refs/tags/x'] }],
    [{ repository: { clone_url: 'u', git_url: 'u', ssh_url: 'v', url: null } }, { urls: ['u', 'v'] }],
    [{ repository: { git_ssh_url: 'u', git_http_url: 'v', url: 'w' } }, { urls: ['u', 'v', 'w'] }],
    [{ project: { git_http_url: 'u', git_ssh_url: 'v' } }, { urls: ['u', 'v'] }],
    [{ resource: { repository: { remoteUrl: 'u', sshUrl: 'v' } } }, { urls: ['u', 'v'] }],
    [{ repository: { links: { html: { href: 'u' } } } }, { urls: ['u'] }],
    [{ project: { path_with_namespace: 'a/b' }, repository: { full_name: 'c/d' } }, { names: ['a/b', 'c/d'] }],
    [{ repository: null, project: [], resource: 'x', ref: 1, refUpdates: [null, 1, [{ name: 'x' }]] }, {}],
    [{ repository: { url: { url: 'x' }, full_name: '' }, push: { changes: { new: 'x' } } }, {}],
  ];
  for (const [payload, expected] of rows) {
    const found = readPush(payload as Record<string, unknown>);
    assert.deepEqual(found, { urls: [], names: [], branches: [], ...expected }, JSON.stringify(payload));
  }
});

const [OLD, NEW, OTHER] = ['a'.repeat(40), 'b'.repeat(40), 'c'.repeat(64)];
const NONE = '0'.repeat(40);

test('the commit of the followed branch, and the one before, are found where each service has them', () => {
  const moved = { hash: NEW, before: OLD };
  const azure = (newObjectId: string) => ({
    resource: { refUpdates: [{ name: 'refs/heads/main', oldObjectId: OLD, newObjectId }] },
  });
  const cloud = (to: object | null) => ({
    push: { changes: [{ old: { type: 'branch', name: 'main', target: { hash: OLD } }, new: to }] },
  });
  const rows: [what: string, payload: object, expected: object | undefined][] = [
    ['GitHub, Gitea, GitLab', { ref: 'refs/heads/main', before: OLD, after: NEW }, moved],
    ['a new branch', { ref: 'refs/heads/main', before: NONE, after: NEW }, { hash: NEW }],
    ['SHA-256, in upper case', { ref: 'refs/heads/main', after: OTHER.toUpperCase() }, { hash: OTHER }],
    ['a deleted branch', { ref: 'refs/heads/main', before: OLD, after: NONE }, undefined],
    ['another branch', { ref: 'refs/heads/mainly', before: OLD, after: NEW }, undefined],
    ['a tag', { ref: 'refs/tags/main', before: OLD, after: NEW }, undefined],
    ['Azure DevOps', azure(NEW), moved],
    ['Azure DevOps, deleted', azure(NONE), undefined],
    ['Azure DevOps, without resource', { refUpdates: { name: 'main', newObjectId: NEW } }, { hash: NEW }],
    ['Bitbucket', cloud({ type: 'branch', name: 'main', target: { hash: NEW } }), moved],
    ['Bitbucket, a tag', cloud({ type: 'tag', name: 'main', target: { hash: NEW } }), undefined],
    ['Bitbucket, deleted', cloud(null), undefined],
    ['Bitbucket Data Center', { changes: [{ ref: { id: 'refs/heads/main' }, fromHash: OLD, toHash: NEW }] }, moved],
    [
      'the last of several',
      {
        refUpdates: [
          { name: 'refs/heads/main', newObjectId: OLD },
          { name: 'refs/heads/main', newObjectId: NEW },
          { name: 'refs/heads/side', newObjectId: OTHER },
        ],
      },
      { hash: NEW },
    ],
    ['no hash', { ref: 'refs/heads/main', after: `${NEW}0` }, undefined],
    ['other types', { ref: 'refs/heads/main', after: [NEW], changes: [null, 1, 'x', { ref: NEW }] }, undefined],
  ];
  for (const [what, payload, expected] of rows) {
    assert.deepEqual(pushedCommit(payload as Record<string, unknown>, 'main'), expected, what);
  }
});

test('members of the prototype are no members of a payload', () => {
  const payload = parsePayload(JSON_TYPE, Buffer.from('{"__proto__":{"ref":"x","repository":{"url":"u"}}}'));
  assert.deepEqual(readPush(payload), { urls: [], names: [], branches: [] });
});

/**
 * One push of a service: its headers, the members of its payload that matter, and the repository's
 * address there.
 */
interface Sample {
  repoUrl: string;
  headers: IncomingHttpHeaders;
  payload: Record<string, unknown>;
  /** What makes it another event. */
  otherEvent: { headers?: IncomingHttpHeaders; payload?: Record<string, unknown> };
}

/** The shapes are those that the services document for a push to `main` of `acme/policies`. */
const SAMPLES: Record<WebhookPreset, Sample> = {
  github: {
    repoUrl: 'git@github.com:acme/policies.git',
    headers: { 'x-github-event': 'push' },
    payload: {
      ref: 'refs/heads/main',
      after: 'a'.repeat(40),
      deleted: false,
      repository: {
        name: 'policies',
        full_name: 'acme/policies',
        html_url: 'https://github.com/acme/policies',
        url: 'https://github.com/acme/policies',
        git_url: 'git://github.com/acme/policies.git',
        ssh_url: 'git@github.com:acme/policies.git',
        clone_url: 'https://github.com/acme/policies.git',
      },
    },
    otherEvent: { headers: { 'x-github-event': 'issues' } },
  },
  gitlab: {
    repoUrl: 'https://oauth2:token@gitlab.example.com/acme/policies.git',
    headers: { 'x-gitlab-event': 'Push Hook' },
    payload: {
      object_kind: 'push',
      ref: 'refs/heads/main',
      project: {
        path_with_namespace: 'acme/policies',
        git_http_url: 'https://gitlab.example.com/acme/policies.git',
        git_ssh_url: 'git@gitlab.example.com:acme/policies.git',
      },
      repository: { name: 'policies', url: 'git@gitlab.example.com:acme/policies.git' },
    },
    otherEvent: { headers: { 'x-gitlab-event': 'Tag Push Hook' } },
  },
  azure: {
    repoUrl: 'https://acme@dev.azure.com/acme/Policies/_git/policies',
    headers: {},
    payload: {
      eventType: 'git.push',
      publisherId: 'tfs',
      resource: {
        refUpdates: [{ name: 'refs/heads/main', oldObjectId: 'a', newObjectId: 'b' }],
        repository: { id: '1', name: 'policies', remoteUrl: 'https://dev.azure.com/acme/Policies/_git/policies' },
      },
    },
    otherEvent: { payload: { eventType: 'git.pullrequest.created' } },
  },
  bitbucket: {
    repoUrl: 'git@bitbucket.org:acme/policies.git',
    headers: { 'x-event-key': 'repo:push' },
    payload: {
      push: {
        changes: [{ old: { type: 'branch', name: 'main' }, new: { type: 'branch', name: 'main' }, closed: false }],
      },
      repository: {
        type: 'repository',
        name: 'policies',
        full_name: 'acme/policies',
        links: { html: { href: 'https://bitbucket.org/acme/policies' } },
      },
    },
    otherEvent: { headers: { 'x-event-key': 'pullrequest:created' } },
  },
  'bitbucket-data-center': {
    repoUrl: 'https://bitbucket.example.com/scm/ACME/policies.git',
    headers: { 'x-event-key': 'repo:refs_changed' },
    payload: {
      eventKey: 'repo:refs_changed',
      date: '2026-11-20T09:12:00+0000',
      actor: { name: 'admin', id: 1, type: 'NORMAL' },
      repository: {
        slug: 'policies',
        id: 84,
        name: 'policies',
        scmId: 'git',
        project: { key: 'ACME', id: 84, name: 'acme', public: false, type: 'NORMAL' },
        public: false,
        links: {
          clone: [
            { href: 'ssh://git@bitbucket.example.com:7999/acme/policies.git', name: 'ssh' },
            { href: 'https://bitbucket.example.com/scm/acme/policies.git', name: 'http' },
          ],
          self: [{ href: 'https://bitbucket.example.com/projects/ACME/repos/policies/browse' }],
        },
      },
      changes: [
        {
          ref: { id: 'refs/heads/main', displayId: 'main', type: 'BRANCH' },
          refId: 'refs/heads/main',
          fromHash: 'a'.repeat(40),
          toHash: 'b'.repeat(40),
          type: 'UPDATE',
        },
      ],
    },
    otherEvent: { headers: { 'x-event-key': 'pr:opened' } },
  },
};

const PRESETS = Object.keys(SAMPLES) as WebhookPreset[];

function judge(
  preset: WebhookPreset,
  rules: Partial<WebhookRules> = {},
  change: Sample['otherEvent'] = {},
): WebhookVerdict {
  const { repoUrl, headers, payload } = SAMPLES[preset];
  return judgeWebhook(
    { params: WEBHOOK_PRESETS[preset], repoUrl, branch: { named: undefined }, enforceBranch: false, ...rules },
    { ...headers, ...change.headers },
    { ...payload, ...change.payload },
  );
}

for (const preset of PRESETS) {
  test(`${preset}: a push to the repository counts, also with only its branch; others are ignored`, () => {
    const event = WEBHOOK_PRESETS[preset].push_event_value;
    assert.deepEqual(judge(preset), { kind: 'push', event });
    assert.deepEqual(judge(preset, { branch: { named: 'main' }, enforceBranch: true }), { kind: 'push', event });
    const branch = judge(preset, { branch: { named: 'other' }, enforceBranch: true });
    assert.deepEqual([branch.kind, branch.event], ['other-branch', event]);
    assert.match(branch.reason ?? '', /^it is about main, and only other counts/);
    const other = judge(preset, { repoUrl: 'https://example.com/acme/other' });
    assert.deepEqual([other.kind, other.event], ['other-repository', event]);
    assert.match(other.reason ?? '', /^it is about .*policies.*, and https:\/\/example\.com\/acme\/other is followed/);
    const none = judge(preset, { repoUrl: undefined });
    assert.deepEqual([none.kind, none.reason], ['other-repository', 'SYNC_POLICY_REPO_URL is not set']);
    const otherEvent = judge(preset, {}, SAMPLES[preset].otherEvent);
    assert.deepEqual(
      [otherEvent.kind, otherEvent.reason],
      ['other-event', `only the event ${event} has the repository fetched`],
    );
  });
}

test('a tag with the name of the branch is another branch', () => {
  const tag = { refUpdates: [{ name: 'refs/tags/main' }], repository: { remoteUrl: SAMPLES.azure.repoUrl } };
  assert.equal(
    judge('github', { branch: { named: 'main' }, enforceBranch: true }, { payload: { ref: 'refs/tags/main' } }).kind,
    'other-branch',
  );
  assert.equal(
    judge('azure', { branch: { named: 'main' }, enforceBranch: true }, { payload: { resource: tag } }).kind,
    'other-branch',
  );
});

test('a payload of Bitbucket Data Center counts by its links, or without them by project and name', () => {
  const { payload } = SAMPLES['bitbucket-data-center'];
  const { links: _, ...nameless } = payload.repository as Record<string, unknown>;
  for (const repoUrl of [
    'ssh://git@bitbucket.example.com:7999/acme/policies.git',
    'https://reader:token@bitbucket.example.com/scm/acme/policies.git',
  ]) {
    assert.equal(judge('bitbucket-data-center', { repoUrl }).kind, 'push');
    assert.equal(judge('bitbucket-data-center', { repoUrl }, { payload: { repository: nameless } }).kind, 'push');
  }
  const repoUrl = 'https://bitbucket.example.com/scm/acme/others.git';
  assert.equal(
    judge('bitbucket-data-center', { repoUrl }, { payload: { repository: nameless } }).kind,
    'other-repository',
  );
});

test('the test ping of Bitbucket Data Center, which names no repository, is taken', () => {
  const verdict = judgeWebhook(
    {
      params: WEBHOOK_PRESETS['bitbucket-data-center'],
      repoUrl: 'https://h/scm/a/b.git',
      branch: { named: 'main' },
      enforceBranch: true,
    },
    { 'x-event-key': 'diagnostics:ping' },
    { test: true },
  );
  assert.deepEqual([verdict.kind, verdict.event], ['other-repository', 'diagnostics:ping']);
});

test('without a branch in the settings the default of the repository counts, and a branch that is not known counts', () => {
  const enforced = { enforceBranch: true };
  const github = (ref: string, default_branch?: string): WebhookVerdict => {
    const repository = { ...(SAMPLES.github.payload.repository as object), default_branch };
    return judge('github', enforced, { payload: { ref, repository } });
  };
  assert.equal(github('refs/heads/trunk', 'trunk').kind, 'push');
  assert.equal(github('refs/heads/side', 'trunk').kind, 'other-branch');
  assert.equal(github('refs/heads/side').kind, 'push', 'nobody knows which one is followed');
  const changes = [{ ref: { shape: 'of a later version' } }];
  assert.equal(
    judge('bitbucket-data-center', { ...enforced, branch: { named: 'main' } }, { payload: { changes } }).kind,
    'push',
  );
  assert.equal(followedBranch({ project: { default_branch: 'main' } }, { named: undefined, byDefault: 'old' }), 'main');
  assert.equal(
    followedBranch({ resource: { repository: { defaultBranch: 'refs/heads/a/b' } } }, { named: undefined }),
    'a/b',
  );
  assert.equal(followedBranch({}, { named: undefined, byDefault: 'trunk' }), 'trunk');
  assert.equal(followedBranch({}, { named: undefined }), undefined);
  assert.equal(
    followedBranch({ repository: { default_branch: 'main' } }, { named: 'live', byDefault: 'trunk' }),
    'live',
  );
  assert.equal(pushedCommit({ ref: 'refs/heads/main', after: NEW }, undefined), undefined);
});

test('one of several pushed branches is enough', () => {
  const refUpdates = [{ name: 'refs/heads/other' }, { name: 'refs/heads/main' }];
  const resource = { refUpdates, repository: { remoteUrl: SAMPLES.azure.repoUrl } };
  assert.equal(
    judge('azure', { branch: { named: 'main' }, enforceBranch: true }, { payload: { resource } }).kind,
    'push',
  );
});

test('a push that names no repository is refused; an event that is no push never is', () => {
  const nameless = { repository: null };
  const text = 'repo url or full name not found in payload!';
  assert.throws(() => judge('github', {}, { payload: nameless }), {
    code: 'webhook_unreadable',
    status: 400,
    message: text,
  });
  // A request that names no event at all is refused too, as OPAL does.
  assert.throws(() => judge('github', {}, { headers: { 'x-github-event': '' }, payload: nameless }), { message: text });
  const ping = judge('github', {}, { headers: { 'x-github-event': 'ping' }, payload: nameless });
  assert.deepEqual([ping.kind, ping.event], ['other-repository', 'ping']);
});

test('without match_sender_url every push counts, whatever it names', () => {
  const params = { ...WEBHOOK_PRESETS.github, match_sender_url: false };
  assert.equal(judge('github', { params, repoUrl: 'https://example.com/other' }).kind, 'push');
  assert.equal(judge('github', { params }, { payload: { repository: null } }).kind, 'push');
});

test('the event header wins over the key of the body; a request that names none is a ping', () => {
  const params = { ...WEBHOOK_PRESETS.github, event_request_key: 'eventType' };
  const headers = { 'x-github-event': 'issues' };
  assert.equal(judge('github', { params }, { headers, payload: { eventType: 'push' } }).event, 'issues');
  const byKey = { ...params, event_header_name: null };
  assert.equal(judge('github', { params: byKey }, { headers, payload: { eventType: 'push' } }).kind, 'push');
  for (const eventType of [undefined, null, 1, {}, ['push']]) {
    const { kind, event } = judge('azure', {}, { payload: { eventType } });
    assert.deepEqual([kind, event], ['other-event', 'ping']);
  }
});

test('a reason has no credentials of a payload or of the settings, and only the start of what is long or many', () => {
  const urls = Array.from({ length: 3 }, (_, index) => `https://me:hush@host/${index}${'x'.repeat(5_000)}`);
  const [git_url, ssh_url, clone_url] = urls;
  const repoUrl = 'https://us:hush@example.com/other';
  const { reason = '' } = judge('github', { repoUrl }, { payload: { repository: { git_url, ssh_url, clone_url } } });
  assert.match(reason, /\*\*\*@host/);
  assert.doesNotMatch(reason, /hush/);
  assert(reason.length < 1_000, `${reason.length}`);
});

test('an answer repeats only the start of a long event name', () => {
  assert.equal(judge('azure', {}, { payload: { eventType: 'x'.repeat(10_000) } }).event.length, 128);
});

test('whatever the body and headers are, the outcome is a verdict or a refusal of the sender', () => {
  const name = fc.constantFrom(
    ...['ref', 'refUpdates', 'name', 'repository', 'project', 'resource', 'push', 'changes', 'new', 'old', 'type'],
    ...['url', 'clone_url', 'full_name', 'path_with_namespace', 'remoteUrl', 'links', 'html', 'href', 'eventType'],
    ...['__proto__', 'constructor', 'toString'],
  );
  const text = fc.constantFrom('push', 'git.push', 'refs/heads/main', 'git@h:org/repo', 'https://[', '%', '');
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 6, depthSize: 'large' },
      fc.oneof(text, fc.string({ unit: ANY_CHARACTER }), fc.double(), fc.boolean(), fc.constant(null)),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(name, tie('value'), { maxKeys: 5 }),
    ),
  }));
  const body = fc.oneof(
    value.map((any) => Buffer.from(JSON.stringify(any) ?? '')),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    value.map((any) => Buffer.from(`payload=${encodeURIComponent(JSON.stringify(any) ?? '')}`)),
  );
  const type = fc.constantFrom('application/json', 'application/x-www-form-urlencoded', 'x', undefined);
  const event = fc.oneof(text, fc.string(), fc.constant(undefined), fc.array(fc.string()));
  let judged = 0;
  fc.assert(
    fc.property(
      body,
      type,
      event,
      fc.constantFrom(...PRESETS),
      fc.boolean(),
      (raw, contentType, named, preset, only) => {
        const headers = { 'x-github-event': named, 'x-gitlab-event': named, 'x-event-key': named };
        const branch = { named: only ? 'main' : undefined };
        const rules = {
          params: WEBHOOK_PRESETS[preset],
          repoUrl: SAMPLES[preset].repoUrl,
          branch,
          enforceBranch: true,
        };
        try {
          const verdict = judgeWebhook(rules, headers as IncomingHttpHeaders, parsePayload(contentType, raw));
          judged++;
          assert(verdict.event.length <= 128);
        } catch (error) {
          assert(error instanceof SyncError && error.status >= 400 && error.status < 500, String(error));
        }
      },
    ),
    { numRuns: 3_000 },
  );
  assert(judged > 50, `only ${judged} came as far as a verdict`);
});
