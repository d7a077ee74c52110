import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { repoRoot } from '../support/repo.js';
import { promtoolProgram } from '../support/server-programs.js';
import { following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

const found = await promtoolProgram();
const skip = 'missing' in found ? found.missing : false;

const ALERTS = join(repoRoot(), 'deploy', 'monitoring', 'alerts.yaml');
const ALERT_TESTS = join(repoRoot(), 'test', 'deploy', 'alerts.yaml');
const DASHBOARD = join(repoRoot(), 'deploy', 'monitoring', 'dashboard.json');

/** Runs promtool; answers its exit code and what it printed. */
function promtool(args: readonly string[], input = ''): Promise<{ code: number; printed: string }> {
  assert('path' in found);
  return new Promise((resolve) => {
    const child = execFile(found.path, args, { env: found.env, cwd: repoRoot() }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), printed: `${stdout}${stderr}` });
    });
    child.stdin?.end(input);
  });
}

/** Every query of the dashboard, with its variables as Grafana fills them in. */
function dashboardQueries(): string[] {
  const dashboard: unknown = JSON.parse(readFileSync(DASHBOARD, 'utf8'));
  const panels = field(dashboard, 'panels');
  assert(Array.isArray(panels));
  const queries = panels.flatMap((panel) => {
    const targets = field(panel, 'targets') ?? [];
    assert(Array.isArray(targets));
    return targets.map((target) => String(field(target, 'expr')));
  });
  assert(queries.length > 30, `${queries.length} queries`);
  return queries.map((query) => query.replaceAll('$__rate_interval', '5m').replaceAll(/\$(server|client)/g, '.*'));
}

/** Each use of a metric: its name, and the values that are required of its labels. */
function uses(text: string): { name: string; labels: [string, string[]][] }[] {
  return [...text.matchAll(/\b((?:policysync|process|nodejs)_[a-z_]+)\b(?:\{([^}]*)\})?/g)].map(
    ([, name, selector]) => ({
      name: name ?? '',
      labels: [...(selector ?? '').matchAll(/(\w+)=~?"([^"]*)"/g)].map(([, label, values]) => [
        label ?? '',
        (values ?? '').split('|'),
      ]),
    }),
  );
}

describe('alert rules and dashboard', () => {
  it('promtool accepts the rules, and each does what it is for', { skip }, async () => {
    const checked = await promtool(['check', 'rules', '--lint-fatal', ALERTS]);
    assert.equal(checked.code, 0, checked.printed);
    const tested = await promtool(['test', 'rules', ALERT_TESTS]);
    assert.equal(tested.code, 0, tested.printed);
  });

  it('each alert has a test in which it fires, a summary, and what to do', () => {
    const rules = readFileSync(ALERTS, 'utf8');
    const tests = readFileSync(ALERT_TESTS, 'utf8');
    const page = readFileSync(join(repoRoot(), 'docs', 'how-to', 'metrics-and-traces.md'), 'utf8');
    const blocks = rules.split('- alert: ').slice(1);
    assert(blocks.length >= 15, `${blocks.length} alerts`);
    for (const block of blocks) {
      const [name = ''] = block.split('\n');
      assert(tests.includes(`alertname="${name}"`), `${name} has no test`);
      assert(page.includes(`\`${name}\``), `${name} is not in docs/how-to/metrics-and-traces.md`);
      assert.match(block, /severity: (critical|warning) /, name);
      assert.match(block, /summary: .{15}[\s\S]*description: .{30}/, name);
    }
  });

  it('each query of the dashboard is PromQL', { skip }, async () => {
    await using dir = await tempDir();
    const rules = dashboardQueries().map((expr, at) => ({ record: `query:${at}`, expr }));
    const file = join(dir.path, 'queries.yaml');
    await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] })); // JSON is YAML
    const checked = await promtool(['check', 'rules', file]);
    assert.equal(checked.code, 0, checked.printed);
  });

  it('no panel shows the processes of others that Prometheus scrapes', { skip }, async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'tests.yaml');
    // What every process has, by name.
    const queries = dashboardQueries().filter((expr) => /\b(?:process|nodejs)_\w+/.test(expr));
    assert(queries.length >= 3);
    const tests = queries.map((expr) => {
      const [metric = ''] = /\b(?:process|nodejs)_\w+/.exec(expr) ?? [];
      const series = (name: string, instance: string): object => ({
        series: `${name}{instance="${instance}"}`,
        values: '1+60x10',
      });
      return {
        interval: '1m',
        input_series: [
          ...[series(metric, 's1'), series(metric, 'c1'), series(metric, 'other')],
          ...[series('policysync_log_head', 's1'), series('policysync_ready', 'c1')],
        ],
        promql_expr_test: [
          {
            expr: `count by (instance) (${expr})`,
            eval_time: '10m',
            exp_samples: [
              { labels: '{instance="c1"}', value: 1 },
              { labels: '{instance="s1"}', value: 1 },
            ],
          },
        ],
      };
    });
    await writeFile(file, JSON.stringify({ tests })); // JSON is YAML
    const tested = await promtool(['test', 'rules', file]);
    assert.equal(tested.code, 0, tested.printed);
  });

  it('each panel takes its data from the variable, says what it shows, and lies beside the others', () => {
    const dashboard: unknown = JSON.parse(readFileSync(DASHBOARD, 'utf8'));
    const panels = field(dashboard, 'panels');
    assert(Array.isArray(panels));
    const taken = new Set<string>();
    for (const panel of panels) {
      const [x, y, w, h] = ['x', 'y', 'w', 'h'].map((side) => Number(field(panel, 'gridPos', side)));
      const title = String(field(panel, 'title'));
      for (let column = x ?? 0; column < (x ?? 0) + (w ?? 0); column++) {
        for (let line = y ?? 0; line < (y ?? 0) + (h ?? 0); line++) {
          assert(column < 24 && !taken.has(`${column} ${line}`), `${title} covers another panel`);
          taken.add(`${column} ${line}`);
        }
      }
      if (field(panel, 'type') === 'row') continue;
      assert.match(String(field(panel, 'datasource', 'uid')), /^\$\{datasource\}$/, title);
      assert(String(field(panel, 'description')).length > 15, title);
    }
  });
});

describe('the metrics of a real server and a real client', () => {
  const ends: (() => PromiseLike<void>)[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    ends.push(() => part[Symbol.asyncDispose]());
    return part;
  };
  let server = '';
  let client = '';
  before(async () => {
    const repo = use(await gitRepo());
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const started = use(await startServer(following(repo)));
    const follower = use(await startClient({ serverUrl: started.url, engine: 'embedded' }));
    await follower.answers('/a/x', undefined, 1);
    await publish(started.url, { dst_path: '/users', data: 1 });
    await follower.holds('/users', 1);
    const text = async (url: string): Promise<string> => (await request(`${url}/metrics`)).text;
    [server, client] = [await text(started.url), await text(follower.url)];
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  it('are as promtool wants them', { skip }, async () => {
    for (const text of [server, client]) {
      assert.deepEqual(await promtool(['check', 'metrics'], text), { code: 0, printed: '' });
    }
  });

  it('have every name, and every label with its values, that rules and dashboard use', () => {
    const all = `${server}\n${client}`;
    const types = new Set([...all.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name));
    const text = [
      readFileSync(ALERTS, 'utf8').replaceAll(/^\s+(summary|description): .*$/gm, ''),
      ...dashboardQueries(),
    ];
    const used = text.flatMap(uses);
    assert(new Set(used.map(({ name }) => name)).size > 30);
    for (const { name, labels } of used) {
      assert(types.has(name) || types.has(name.replace(/_(bucket|count|sum)$/, '')), `there is no metric ${name}`);
      const samples = all.split('\n').filter((line) => line.startsWith(`${name}{`));
      for (const [label, values] of labels) {
        if (label === 'instance') continue; // by the scrape
        // A counter has a series once it was counted.
        if (samples.length === 0 || /_publish_total$/.test(name)) continue;
        for (const value of values)
          assert(
            samples.some((line) => line.includes(`${label}="${value}"`)),
            `${name} has no ${label}="${value}"`,
          );
      }
    }
  });
});
