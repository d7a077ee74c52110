import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataStory } from '../../../test/support/data-story.js';
import type { TraceStart, Tracing } from '../../lib/observe/tracing.js';
import { DataEvents } from '../status/data-events.js';
import { UpdateTraces } from './traces.js';

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

/** Spans that were begun, as `name of update, ok or failed`. */
function recorded(): { tracing: Tracing; spans: string[] } {
  const spans: string[] = [];
  const start = (name: string, { parent, attributes }: TraceStart = {}): ReturnType<Tracing['start']> => ({
    traceparent: parent ?? '',
    run: (work) => work(),
    set: () => undefined,
    end: (error) =>
      void spans.push(`${name} of ${attributes?.['policysync.update_id']}, ${error === undefined ? 'ok' : 'failed'}`),
  });
  return { spans, tracing: { start, flush: async () => undefined } };
}

/** An update of one entry that has just begun. */
function begun(traces: UpdateTraces, id: string, traceparent: string | undefined) {
  const events = new DataEvents();
  events.subscribe(traces.onData);
  const update = { id, reason: '', callbacks: [], isLoad: false, traceparent };
  const transaction = events.begin(update);
  return { update, entry: { ...new DataStory().entry(id), transaction } };
}

const work = async (): Promise<string> => 'done';

test('what is done for a traced update is a span until it has finished; then one report is', async () => {
  const { tracing, spans } = recorded();
  const traces = new UpdateTraces({ clientId: 'c' }, { tracing });
  const traced = begun(traces, 'u1', PARENT);
  const other = begun(traces, 'u2', PARENT);
  const untraced = begun(traces, 'u3', undefined);
  const wrong = begun(traces, 'u4', 'none');
  for (const { entry } of [traced, untraced, wrong]) assert.equal(await traces.fetch(entry, work), 'done');
  await assert.rejects(
    traces.fetch(traced.entry, () => Promise.reject(new Error('no answer'))),
    /no answer/,
  );
  await traces.apply([traced.entry, traced.entry, untraced.entry, other.entry], work);
  await traces.report(work);
  traces.finished(traced.update);
  await traces.report(work);
  await traces.report(work);
  await traces.fetch(traced.entry, work); // a later read of the same source
  assert.deepEqual(spans, [
    'fetch of u1, ok',
    'fetch of u1, failed',
    'apply of u1, ok',
    'apply of u2, ok',
    'report of u1, ok',
  ]);
});
