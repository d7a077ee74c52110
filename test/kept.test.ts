import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';

/**
 * Every list, map and set that outlives a call, and why it does not grow without end. One that a peer fills with names of its own has a
 * bound of its own and a test that grows it: `test/security/growth.test.ts` by its place in this table, or the test that is named.
 */

/** Why a collection has an end. */
const WHY = {
  program: 'its elements are parts of our own program: listeners, routes, settings',
  call: 'it ends with the call, the bundle, the archive or the request that it is of',
  underWay: 'one element for each request, connection or job under way, whose number is bounded where they come in',
  held: 'it is what the log, the repository or the policy holds, whose size is bounded where it comes in',
  server: 'it follows what its server has it hold: entries, documents, seqs that are open',
  issued: 'one element for each token or subject that the operator lets in; the oldest go',
  neighbours: 'one element for each instance that announces itself in the backbone, which is trusted',
} as const;
type Why = keyof typeof WHY;

/** {@link WHY}, or the test that grows it: its name, in the file beside the source unless another one is named. */
type Kept = Why | { readonly grownBy: string; readonly in?: string };

const grown: Kept = { grownBy: 'what peers name is bounded', in: 'test/security/growth.test.ts' };
const by = (grownBy: string, file?: string): Kept => ({ grownBy, ...(file !== undefined && { in: file }) });

const OF_CLIENTS = by(
  'whoever came and went leaves nothing behind: the numbers of parts are used again',
  'src/server/peers/presence-journal.test.ts',
);

const TABLE: Readonly<Record<string, Readonly<Record<string, Kept>>>> = {
  'src/auth/verify.ts': { 'createVerifier.known': 'issued' },
  'src/client/asked/asked-actions.ts': { '#underWay': 'program' },
  'src/client/authzen/request.ts': { '#entities': 'call' },
  'src/client/decisions/change-feed.ts': { '#subscriptions': 'program', '#written': grown },
  'src/client/decisions/decisions.ts': { '#waiting': 'underWay', '#kept': grown },
  'src/client/decisions/question.ts': { '#paths': grown },
  'src/client/desired/entry-table.ts': { '#arriving': 'server' },
  'src/client/drift/drift-check.ts': {
    '#hashes': 'server',
    '#written': 'server',
    '#failed': 'server',
    '#parts': 'server',
  },
  'src/client/engine/opa/inline-opa.ts': { '#active': 'held' },
  'src/client/engine/modules/module-graph.ts': {
    ...{ '#links': 'call', '#groups': 'call', '#packages': 'call', to: 'call' },
    ...{ NONE: 'program', NO_MODULES: 'program' },
  },
  'src/client/engine/modules/module-swap.ts': { '#touched': 'call', '#closed': 'call', '#undone': 'call' },
  'src/client/engine/opa/opa-authz.ts': { files: 'program' },
  'src/client/engine/opa/opa-bundle-server.ts': { '#waiting': 'underWay' },
  'src/client/engine/opa/opa-rest.ts': { '#parents': 'server' },
  'src/client/engine/modules/rego-versions.ts': { '#known': 'held' },
  'src/client/fetch/limiter.ts': {
    '#hosts': 'underWay',
    '#failingIdle': by('remembers a failing host for an hour and ten thousand of them, and no other'),
    '#keptSlots': 'underWay',
  },
  'src/client/fetch/postgres-bounds.ts': { '#reads': 'underWay' },
  'src/client/health/health-writer.ts': { '#paths': 'program' },
  'src/client/outbound/gate.ts': { '#allow': 'program', '#deny': 'program', '#methods': 'program' },
  'src/client/outbound/own-places.ts': { '#places': 'program' },
  'src/client/position/change-steps.ts': {
    '#updates': 'server',
    '#untold': by('the last hundred are told, whatever came'),
    '#commits': by('the last hundred are told, whatever came'),
  },
  'src/client/position/position-waits.ts': { '#waiting': 'underWay' },
  'src/client/position/position.ts': {
    ...{ '#beyond': 'server', '#lacking': 'server', '#seqOf': 'server' },
    ...{ '#replaced': 'server', '#seen': 'server', '#notified': 'server', '#topics': 'program' },
  },
  'src/client/reconcile/desired-entries.ts': { '#removals': 'held' },
  'src/client/reconcile/engine-copy.ts': {
    ...{ '#withheld': 'server', '#roots': 'held', '#packages': 'held', '#undecided': 'held', '#doubtful': 'held' },
    '#left': 'held',
  },
  'src/client/reconcile/entry-fetcher.ts': { '#seen': 'server' },
  'src/client/reconcile/entry-writer.ts': {
    ...{ '#ready': 'server', '#writing': 'server', '#discarded': 'server', '#troubled': 'server' },
  },
  'src/client/reconcile/load.ts': { '#missing': 'program' },
  'src/client/reconcile/log-cursor.ts': { '#paged': 'server' },
  'src/client/reconcile/policy-updater.ts': { '#missing': 'program' },
  'src/client/reconcile/step.ts': { '#before': 'call' },
  'src/client/reconcile/update-reader.ts': { '#recent': grown },
  'src/client/report/callbacks.ts': {
    '#entries': by('there is room for a hundred callbacks; one that is there can still be replaced'),
  },
  'src/client/report/entry-outcomes.ts': { '#drafts': 'server', '#waiting': 'server' },
  'src/client/report/reporter.ts': { '#configured': 'program' },
  'src/client/report/sender.ts': {
    '#queue': by(
      'what waits is bounded: the oldest report is dropped, and counted',
      'test/contracts/report-sender.test.ts',
    ),
  },
  'src/client/status/data-events.ts': { '#subscribers': 'program' },
  'src/client/status/data-readiness.ts': { '#named': 'server', '#open': 'server', '#missing': 'server' },
  'src/client/status/failures.ts': { '#byId': 'server' },
  'src/client/status/policy-state.ts': { '#missing': 'program' },
  'src/client/status/recent-transactions.ts': {
    '#noted': by('are twenty at most, the newest first; loads that find nothing new are one'),
  },
  'src/client/status/transactions.ts': { '#open': 'server' },
  'src/client/follow/traces.ts': { '#open': 'server', '#unreported': 'server' },
  'src/embedded/compiled/compiled-policy.ts': {
    '#forGo': 'held',
    '#builtins': 'held',
    '#ids': 'held',
    '#reads': 'held',
  },
  'src/embedded/compiled/odd-numbers.ts': { '#places': 'held' },
  'src/embedded/deadlines.ts': { '#calls': 'underWay' },
  'src/embedded/documents.ts': { '#root': 'held' },
  'src/embedded/embedded-opa.ts': { '#watchers': 'program', '#roots': 'held', '#compilings': 'underWay' },
  'src/embedded/entrypoints.ts': { '#entries': grown, '#fixed': 'program' },
  'src/embedded/evaluator/evaluator-thread.ts': { '#batch': 'underWay', '#items': 'underWay' },
  'src/embedded/go/go-child.ts': { '#calls': 'underWay' },
  'src/embedded/go/go-opa.ts': { '#waiting': 'underWay' },
  'src/embedded/go/go-process.ts': { '#waiting': 'underWay', '#fetching': 'underWay' },
  'src/embedded/go/go-worker.ts': { '#fetching': 'underWay' },
  'src/embedded/replica.ts': { '#since': 'underWay', '#entrypoints': 'held' },
  'src/embedded/rest/rest-figures.ts': { '#series': 'program' },
  'src/embedded/serving.ts': { '#coming': 'program', '#crashes': 'held', '#erring': 'held' },
  'src/http/address-limits.ts': { '#warnings': 'underWay' },
  'src/http/error-handler.ts': { '#patterns': 'program' },
  'src/http/listener-tls.ts': {
    '#said': by(
      'says a thing once a minute, with how often it was unsaid, and remembers so many things',
      'src/http/rare-lines.test.ts',
    ),
  },
  'src/http/request-guards.ts': { 'createHostCheck.taken': 'program' },
  'src/lib/net/server-request.ts': { '#secrets': 'program', good: 'call' },
  'src/lib/run/arrivals.ts': { '#open': 'underWay' },
  'src/lib/run/async.ts': { '#waiting': 'underWay', '#tasks': 'underWay' },
  'src/lib/run/budget.ts': { '#accounts': 'underWay' },
  'src/lib/run/byte-cache.ts': { '#values': by('keeps what was used last within the budget') },
  'src/lib/run/child-env.ts': { more: 'program' },
  'src/lib/run/fair-rate.ts': {
    '#used': by('any number of callers costs bounded memory'),
    '#before': by('any number of callers costs bounded memory'),
  },
  'src/lib/json/json-check.ts': { '#open': 'call' },
  'src/lib/observe/log-levels.ts': { '#scopes': 'program', '#cells': 'program' },
  'src/lib/observe/metrics.ts': { 'createMetrics.instruments': 'program' },
  'src/lib/net/pieces.ts': { '#list': 'call' },
  'src/lib/net/open-connections.ts': {
    '#all': by(
      'where as many connections are open as may be, one on which nothing happens gives way',
      'test/contracts/open-connections.test.ts',
    ),
    ...{ '#shaking': 'underWay', '#unused': 'underWay', '#idle': 'underWay', ends: 'underWay' },
  },
  'src/lib/settings/options.ts': { knownElsewhere: 'program', parts: 'program' },
  'src/lib/json/path-tree.ts': { '#byId': 'held' },
  'src/lib/run/rate.ts': { '#windows': by('any number of addresses costs bounded memory, and each the same time') },
  'src/lib/run/shared-work.ts': { '#running': 'underWay', '#queued': 'underWay' },
  'src/lib/run/turns.ts': { '#lines': by('who waits too often is refused, and others are not') },
  'src/pubsub/connection.ts': {
    '#topics': by('a connection subscribes to as many topics as it may', 'test/security/growth.test.ts'),
    '#complaints': by('a connection subscribes to as many topics as it may', 'test/security/growth.test.ts'),
  },
  'src/pubsub/hub.ts': { '#made': 'call', 'createHub.byTopic': 'underWay', 'createHub.topicsOf': 'underWay' },
  'src/pubsub/large-frame.ts': { spans: 'call' },
  'src/pubsub/link.ts': {
    '#calls': 'underWay',
    '#held': by(
      'what is published before the subscription is answered is bounded',
      'test/contracts/socket-client.test.ts',
    ),
  },
  'src/pubsub/socket-server.ts': { '#admissions': 'underWay', '#connections': 'underWay' },
  'src/pubsub/tarpit.ts': { '#addresses': grown, '#held': by('what is held is bounded, for one address and over all') },
  'src/server/log/backbone/postgres-session.ts': { '#parts': 'program' },
  'src/server/log/backbone/redis-session.ts': { SHAS: 'program' },
  'src/server/log/backbone/session-keeper.ts': {
    '#listeners': 'program',
    '#mailListeners': 'program',
    '#roundTrips': 'program',
  },
  'src/server/policy/bundle/plan.ts': { '#visible': 'call' },
  'src/server/policy/bundle/review.ts': { 'createCommitReview.sizes': 'held' },
  'src/server/policy/bundle/snapshot.ts': { 'createSnapshots.kept': grown, 'createSnapshots.places': 'held' },
  'src/server/documents/document-reach.ts': {
    '#byTopic': 'call',
    '#everywhere': 'call',
    '#failing': 'call',
    '#blocked': 'call',
  },
  'src/server/live/commit-abouts.ts': { '#asked': grown },
  'src/server/live/feed-event.ts': { '#frames': 'program' },
  'src/server/live/feed.ts': {
    ...{ '#readers': 'underWay', '#waiting': 'underWay', '#updates': 'held' },
    '#events': by('it is bounded by size, too'),
  },
  'src/server/live/feeds.ts': {
    '#touched': by('updates with very many topics are not kept until the next look'),
    '#feeds': by('all with the same limits share one feed, and there is room for fifty limits'),
    '#records': by('updates with very many topics are not kept until the next look'),
  },
  'src/server/live/rows.ts': { '#entries': 'held', '#freeSlots': 'held' },
  'src/server/live/tracked-changes.ts': { '#tracked': 'held' },
  'src/server/policy/gate/gate.ts': { '#checks': 'program' },
  'src/server/peers/instance-list.ts': { '#seen': 'neighbours' },
  'src/server/peers/instances.ts': { '#notes': 'program' },
  'src/server/log/append-queue.ts': { '#pending': 'underWay' },
  'src/server/log/fold.ts': {
    ...{ '#base': 'held', '#entryCounts': 'held', '#compactable': 'held', '#passing': grown, '#snapshot': 'held' },
  },
  'src/server/log/folded-state.ts': {
    '#topicHeads': by(
      'the topics of a log have a bound; a topic that it knows is taken',
      'test/security/growth.test.ts',
    ),
  },
  'src/server/log/large-rows.ts': { '#reading': 'underWay', '#updates': 'held' },
  'src/server/log/live-items.ts': {
    ...{ '#byTopic': 'held', '#live': 'held' },
    ...{ '#limited': 'held', '#readers': 'held', '#newest': 'held', all: 'held', '#known': 'held' },
  },
  'src/server/log/log-view.ts': {
    ...{
      '#listeners': 'program',
      '#policyListeners': 'program',
      '#skipListeners': 'program',
      '#subscribers': 'underWay',
    },
  },
  'src/server/log/patch-limit.ts': { '#underWay': 'underWay', NONE: 'program' },
  'src/server/log/retention.ts': { '#unused': 'held', '#retired': 'held' },
  'src/server/log/removals.ts': {
    ...{ '#needs': 'held', '#neededFor': 'held', '#forBase': 'held', '#doubtful': 'held', '#buried': 'held' },
    '#ended': 'held',
  },
  'src/server/log/row.ts': { superseded: 'held' },
  'src/server/log/row-refs.ts': { '#counts': 'held', '#unused': 'held' },
  'src/server/log/sqlite/sqlite-store.ts': {
    ...{ '#listeners': 'program', 'memoryPresence.texts': 'program', 'memoryPresence.partsOf': 'program' },
    '#waiting': 'underWay',
  },
  'src/server/log/tail-reader.ts': { '#kept': grown, '#reading': 'underWay' },
  'src/server/policy/policy-freshness.ts': { '#unknown': grown },
  'src/server/policy/views/policy-views.ts': { '#making': 'underWay' },
  'src/server/publish/publish.ts': { '#byId': 'underWay' },
  'src/server/routes/data-config.ts': { '#whole': 'program' },
  'src/server/routes/data-updates.ts': { updates: 'call' },
  'src/server/server.ts': { 'compose.connections': 'underWay' },
  'src/server/peers/ask-relay.ts': { '#waiting': 'underWay', '#shared': 'underWay' },
  'src/server/peers/clients-file.ts': { '#entering': 'underWay', '#sinceListed': 'underWay', '#unwritten': 'underWay' },
  'src/server/clients/client-text.ts': { lists: 'call', '#indexes': 'call' },
  'src/server/clients/client-asks.ts': { '#byId': 'underWay', '#byPlace': 'underWay' },
  'src/server/clients/id-claims.ts': { '#byId': 'issued', '#kept': grown },
  'src/server/peers/other-instances.ts': { '#known': 'neighbours', '#counted': 'neighbours' },
  'src/server/peers/presence-journal.ts': {
    ...{ '#entries': OF_CLIENTS, '#sheets': OF_CLIENTS, '#open': OF_CLIENTS, '#former': OF_CLIENTS },
    ...{ '#times': 'program', '#told': 'program', staged: 'call', pieces: 'call', '#free': OF_CLIENTS },
  },
  'src/server/peers/presence-reader.ts': { '#kept': 'neighbours' },
  'src/server/clients/recent-updates.ts': { '#updates': grown },
  'src/server/clients/registry.ts': {
    ...{ '#subjectOf': grown, '#bySubject': 'held' },
    ...{ '#byKey': 'underWay', '#keyOf': 'underWay', '#twins': 'underWay', '#watchers': 'program' },
  },
  'src/server/clients/state-files.ts': { '#failing': 'program' },
  'src/server/peers/waiters.ts': { '#known': 'call', '#taken': 'call' },
  'src/server/policy/source/archive.ts': { '#kinds': 'call' },
  'src/server/policy/source/git-command.ts': { '#chunks': 'call' },
  'src/server/policy/source/git-objects.ts': { 'createGitObjects.recalled': 'held' },
  'src/server/policy/source/tracker.ts': { '#waiting': 'underWay', '#warnings': 'held' },
  'src/fleet-rules/document-tree.ts': { 'openAtFirst.open': 'call' },
  'src/fleet-rules/policy-files.ts': { 'openFiles.open': 'call' },
  'src/wire/inline-data.ts': { spans: 'call' },
  'src/wire/json-node.ts': { EMPTY: 'program' },
  'src/wire/list-items.ts': { '#blocks': 'call' },
  'src/server/changes/change-times.ts': {
    '#changes': by('the oldest changes are forgotten, and nothing is kept of unknown ones'),
    NOBODY: 'program',
  },
};

const FOLDERS = [
  'server',
  'pubsub',
  'client',
  'embedded',
  'http',
  'lib',
  'auth',
  'middleware',
  'checker',
  'wire',
  'fleet-rules',
];
/** A field that begins as a collection, and a private one that becomes one. */
const FIELDS = [
  /^ {2}(?:(?:protected|private|static|readonly) )*(#?\w+)(?:: [^=\n]+)? = (?:new (?:Map|Set)\b|\[)/gm,
  /^ {2}(?:readonly )?(#\w+): (?:Readonly)?(?:Map|Set)<[^\n]*;$/gm,
  /^ {2}(?:readonly )?(#\w+): (?:[^=\n]*\[\])(?: \| undefined)?;$/gm,
];
const MODULE_WIDE = /^(?:export )?(?:const|let) (\w+)(?:: [^=\n]+)? = new (?:Map|Set)(?:<[^\n]*>)?\(\);/gm;
/** Functions of these names return what lives on, with all that they close over. */
const FACTORY = /^(?:export )?(?:async )?function ((?:create|compose|memory|open)\w*)[\s\S]*?^}/gm;
const LOCAL = /^ {2}(?:const|let) (\w+)(?:: [^=\n]+)? = new (?:Map|Set)\b/gm;

const FOUND = FOLDERS.flatMap((folder) =>
  readdirSync(join(repoRoot(), 'src', folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((name) => {
      const file = `src/${folder}/${name.split(sep).join('/')}`;
      return [...new Set(collectionsIn(readFileSync(join(repoRoot(), file), 'utf8')))].map((own) => `${file} ${own}`);
    }),
);

function collectionsIn(text: string): string[] {
  const fields = FIELDS.flatMap((pattern) => [...text.matchAll(pattern)])
    .filter(([line]) => /#|readonly|protected/.test(line))
    .map(([, name = '']) => name);
  const wide = [...text.matchAll(MODULE_WIDE)].map(([, name = '']) => name);
  const closed = [...text.matchAll(FACTORY)].flatMap(([body, factory]) =>
    [...body.matchAll(LOCAL)].map(([, name]) => `${factory}.${name}`),
  );
  return [...fields, ...wide, ...closed];
}

test('every collection that lives on is in the table, with what ends its growth', () => {
  assert(FOUND.length > 150, `only ${FOUND.length} collections`);
  const listed = Object.entries(TABLE).flatMap(([file, fields]) => Object.keys(fields).map((own) => `${file} ${own}`));
  assert.deepEqual(
    FOUND.sort(),
    listed.sort(),
    'say in the table what bounds it; where a peer fills it, grow it in a test',
  );
});

test('every test that the table names is there, and grows what it says', () => {
  for (const [file, fields] of Object.entries(TABLE)) {
    for (const [own, kept] of Object.entries(fields)) {
      if (typeof kept === 'string') continue;
      const testFile = kept.in ?? file.replace(/\.ts$/, '.test.ts');
      const path = join(repoRoot(), testFile);
      assert(existsSync(path), `${file} ${own}: there is no ${testFile}`);
      const text = readFileSync(path, 'utf8');
      assert(text.includes(kept.grownBy), `${testFile} has no test “${kept.grownBy}”`);
      if (kept === grown) assert(text.includes(`'${file} ${own}'`), `${testFile} does not grow ${file} ${own}`);
    }
  }
});
