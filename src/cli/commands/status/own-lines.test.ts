import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NO_RULE } from '../../../wire/client-health.js';
import { ownConditions, ownHealth, ownLines } from './own-lines.js';

const NOW = Date.UTC(2026, 10, 22, 18, 3, 23);
const ago = (seconds: number): string => new Date(NOW - seconds * 1000).toISOString();
const HELD = '5b1f0c93aa5b1f0c93aa5b1f0c93aa5b1f0c93aa';
const WANTED = '77aa01bcde77aa01bcde77aa01bcde77aa01bcde';
const POSITION = { epoch: 'fe14', applied_through: 42, unresolved: [] };

function health(changes: object = {}): ReturnType<typeof ownHealth.parse> {
  return ownHealth.parse({
    status: 'ok',
    ready: true,
    healthy: true,
    policy: { hash: HELD, wanted: HELD, error: null, since: ago(60) },
    data: { failing: [], failing_total: 0, unresolved: 0 },
    engine: { online: true, error: null, policy_mode: 'bundle', version: '1.22.0', since: ago(60) },
    server: { connected: true, error: null, since: ago(60) },
    ...changes,
  });
}

function lines(changes: object, width = 1000): string[] {
  return ownLines(health(changes), POSITION, { nowMs: NOW, width });
}

describe('a client by its own word', () => {
  it('that is well', () => {
    assert.deepEqual(lines({}), [
      'State     healthy',
      'Policy    5b1f0c93aa',
      'Position  42 of update log fe14',
      'Engine    answers (OPA 1.22.0, policy by bundle)',
      'Server    connected',
    ]);
    assert.deepEqual([...ownConditions(health())], []);
  });

  it('says that its backup cannot be written', () => {
    const backup = { saved_at: null, age_seconds: null, error: 'the backup cannot be written: ENOSPC' };
    const shown = 'Backup    the file is not what the client holds: the backup cannot be written: ENOSPC';
    assert.equal(lines({ connectivity: { backup } })[5], shown);
    assert.equal(lines({ connectivity: { backup: { ...backup, error: null } } }).length, 5);
  });

  it('says as which version of Rego modules are read, and that everybody may write into the engine', () => {
    const engine = { online: true, error: null, policy_mode: 'bundle', version: '1.22.0', since: ago(60) };
    const line = (more: object): string | undefined => lines({ engine: { ...engine, ...more } })[3];
    const shown = (text: string): string => `Engine    answers (OPA 1.22.0, policy by bundle${text})`;
    assert.equal(line({ rego: null, access: 'token' }), shown(''));
    assert.equal(line({ kind: 'embedded' }), 'Engine    answers (embedded OPA 1.22.0, policy by bundle)');
    assert.equal(line({ rego: { mode: 'auto', v0: 0, v1: 2 } }), shown(', Rego v1'));
    assert.equal(line({ rego: { mode: 'v0', v0: 2, v1: 0 } }), shown(', Rego v0'));
    assert.equal(line({ rego: { mode: 'auto', v0: 1, v1: 4 } }), shown(', Rego v1 and 1 module v0'));
    assert.equal(line({ access: 'open' }), shown(', open: everybody may write'));
  });

  it('names decisions of an embedded engine that are not compiled, with the reason', () => {
    const engine = {
      kind: 'embedded',
      online: true,
      error: null,
      policy_mode: 'bundle',
      version: '1.22.0',
      since: ago(60),
    };
    const shown = (with_go: object[]): string[] => lines({ engine: { ...engine, embedded: { with_go } } }).slice(4, -1);
    const left = { path: 'app/allow', reason: 'app.rego:3: http.send needs the network' };
    const none = { path: 'users', reason: NO_RULE };
    assert.deepEqual(shown([none]), []);
    assert.deepEqual(shown([none, left]), [
      '          app/allow is not compiled: app.rego:3: http.send needs the network',
    ]);
    assert.equal(shown(Array.from({ length: 7 }, () => left)).at(-1), '          and 2 more decisions');
  });

  it('whose directories are not all there', () => {
    const policy = { hash: HELD, wanted: HELD, error: null, since: ago(60), missing_directories: ['team', 'b/c'] };
    assert.deepEqual(lines({ policy }).slice(1, 3), [
      'Policy    5b1f0c93aa',
      '          not in the repository, so empty: team, b/c',
    ]);
  });

  it('whose documents wait for the first policy', () => {
    const data = { failing: [], failing_total: 0, unresolved: 2, awaiting_policy: { total: 2, paths: ['/a', '/b'] } };
    assert.equal(lines({ data }).at(-1), 'Waiting   2 documents for the first policy');
  });

  it('whose policy waits for the first documents', () => {
    const policy = (...paths: string[]) => ({
      policy: { hash: null, wanted: WANTED, error: null, since: null, awaiting_data: { total: paths.length, paths } },
    });
    const shown = [policy(), policy('/a'), policy('/a', '/b')].map((changes) => lines(changes)[2]?.trim());
    const waits = 'waits for the documents of the first load,';
    assert.deepEqual(shown, [
      `${waits} which it has not read yet`,
      `${waits} of which 1 is missing`,
      `${waits} of which 2 are missing`,
    ]);
  });

  it('that is not: each reason, since when, wanted and held commit, at 80 columns', () => {
    const error = { message: 'rego_parse_error: unexpected eof token', file: 'app/rbac.rego', line: 12 };
    const sick = {
      status: 'unavailable',
      healthy: false,
      policy: { hash: HELD, wanted: WANTED, error, since: ago(12) },
      data: { failing: [{ path: '/users', error: 'HTTP 500', since: ago(75) }], failing_total: 1, unresolved: 1 },
      engine: { online: false, error: 'connect ECONNREFUSED', policy_mode: 'bundle', version: null, since: ago(5) },
      server: { connected: false, error: 'the sync server answered 401', code: 'token_refused', since: ago(600) },
    };
    assert.deepEqual(lines(sick, 80), [
      'State     unhealthy',
      'Policy    wants 77aa01bcde, holds 5b1f0c93aa; failing since 18:03:11 UTC (12 s):',
      '          app/rbac.rego:12: rego_parse_error: unexpected eof token',
      'Position  42 of update log fe14',
      'Engine    does not answer since 18:03:18 UTC (5.0 s): connect ECONNREFUSED',
      'Server    not connected since 17:53:23 UTC (10 min): the sync server answered',
      '          401',
      '          What to do: Give a token of the type that the message, or `--help` of',
      '          the command, names: `policysync token --type <type> --out <file>`',
      '          issues one; pass it by `--token-file` or SYNC_CLIENT_TOKEN. A running',
      '          client tries again by itself. [token_refused]',
      'Failing   /users: failing since 18:02:08 UTC (75 s): HTTP 500',
    ]);
    assert.deepEqual([...ownConditions(health(sick))], ['unhealthy', 'behind', 'away']);
    for (const line of lines(sick, 120)) assert(line.length <= 120, line);
  });

  it('whose server is cut off says since when, and is away from the truth', () => {
    const server = { connected: true, error: null, since: ago(600), cut_off_since: ago(75) };
    assert.equal(
      lines({ server })[4],
      'Server    connected, but it is cut off from its backbone since 18:02:08 UTC (75 s): what was published elsewhere is missing here',
    );
    assert.deepEqual([...ownConditions(health({ server }))], ['away']);
  });

  it('that serves without its server on purpose is well, and away', () => {
    const offline = { healthy: false, server: { connected: false, error: null, since: null } };
    assert.equal(lines(offline)[0], 'State     healthy');
    assert.deepEqual([...ownConditions(health(offline))], ['away']);
  });

  it('tells nothing of the reasons to who may not know them, and says who may', () => {
    const sick = {
      status: 'unavailable',
      healthy: false,
      policy: { hash: HELD, wanted: WANTED, since: ago(12) },
      data: { failing: [{ kind: 'source', since: ago(75) }], failing_total: 2, unresolved: 1 },
      engine: { online: false, kind: 'inline', since: ago(5) },
      server: { connected: false, code: 'server_unreachable', since: ago(600) },
    };
    const shown = lines(sick);
    assert.deepEqual(
      shown.filter((line) => !line.includes('What to do')),
      [
        'State     unhealthy',
        'Policy    wants 77aa01bcde, holds 5b1f0c93aa',
        'Position  42 of update log fe14',
        'Engine    does not answer since 18:03:18 UTC (5.0 s)',
        'Server    not connected since 17:53:23 UTC (10 min)',
        'Failing   2 paths',
        'Reasons   the client tells them to holders of a token without limits: --token, or SYNC_CLIENT_TOKEN',
      ],
    );
  });

  it('counts the failing paths that it does not name', () => {
    const failing = Array.from({ length: 30 }, (_, n) => ({ path: `/p${n}`, error: 'x', since: ago(1) }));
    assert.equal(
      lines({ data: { failing, failing_total: 100, unresolved: 0 } }).at(-1),
      '          and 80 more failing paths',
    );
  });
});
