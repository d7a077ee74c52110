import assert from 'node:assert/strict';
import { it } from 'node:test';
import { withOverrides } from '../run/with-overrides.js';
import { createMetrics, timed } from './metrics.js';

it('prints counters, gauges and histograms as Prometheus reads them, beside figures of the process', async () => {
  const metrics = createMetrics();
  const counter = metrics.counter('policysync_things_total', 'Things');
  counter.inc({ outcome: 'ok' });
  counter.inc({ outcome: 'ok' }, 2);
  counter.inc({ outcome: 'a "quoted" one' });
  let level = 3;
  metrics.gauge('policysync_level', 'Level', () => level);
  metrics.total('policysync_kept_total', 'Kept elsewhere', () => [{ value: 5, labels: { of: 'x' } }]);
  const histogram = metrics.histogram('policysync_size', 'Size', [1, 10]);
  for (const value of [0.5, 1, 5, 100]) histogram.observe(value);
  const { contentType, text } = await metrics.text();
  assert.match(contentType, /^text\/plain/);
  const lines = text.split('\n');
  for (const line of [
    '# TYPE policysync_things_total counter',
    'policysync_things_total{outcome="ok"} 3',
    'policysync_things_total{outcome="a \\"quoted\\" one"} 1',
    'policysync_level 3',
    'policysync_kept_total{of="x"} 5',
    '# TYPE policysync_size histogram',
    'policysync_size_bucket{le="1"} 2',
    'policysync_size_bucket{le="10"} 3',
    'policysync_size_bucket{le="+Inf"} 4',
    'policysync_size_sum 106.5',
    'policysync_size_count 4',
  ]) {
    assert(lines.includes(line), `${line} is not in\n${text}`);
  }
  assert.match(text, /^process_resident_memory_bytes \d/m);
  level = 4;
  assert.match((await metrics.text()).text, /^policysync_level 4$/m);
});

it('refuses a name twice, and one that is not ours', () => {
  const metrics = createMetrics();
  metrics.counter('policysync_a_total', '');
  assert.throws(() => metrics.gauge('policysync_a_total', '', () => 0), /already/);
  assert.throws(() => metrics.counter('other_total', ''), /no name of a metric/);
});

it('measures how work ended', async () => {
  const seen: unknown[] = [];
  const histogram = { observe: (value: number, labels: unknown) => seen.push([value >= 0, labels]) };
  assert.equal(await timed(histogram, async () => 7, { kind: 'k' }), 7);
  await assert.rejects(
    timed(histogram, () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.deepEqual(seen, [
    [true, { kind: 'k', outcome: 'ok' }],
    [true, { outcome: 'failed' }],
  ]);
});

it('replaces methods of an object and leaves the others on it, private fields included', () => {
  class Part {
    #value = 1;
    own(): number {
      return this.#value++;
    }
    other(): string {
      return 'own';
    }
    get now(): number {
      return this.#value;
    }
  }
  const part = new Part();
  const wrapped = withOverrides(part, { other: () => 'replaced' });
  assert.deepEqual(
    [wrapped.own(), wrapped.own(), wrapped.now, wrapped.other(), part.other()],
    [1, 2, 3, 'replaced', 'own'],
  );
});
