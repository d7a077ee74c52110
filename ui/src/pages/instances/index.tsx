import './instances.css';
import { useMemo } from 'preact/hooks';
import { type LastHour, lastHour } from '../../../../src/fleet-rules/last-hour.js';
import { own } from '../../../../src/fleet-rules/names-of-others.js';
import { count, integer, size } from '../../../../src/fleet-rules/words.js';
import type { InstancesAnswer } from '../../../../src/wire/fleet-views.js';
import type { PageProps } from '../../app';
import { Failed, Loading } from '../../parts/empty';
import { PageHead } from '../../parts/section';
import { useReading } from '../../parts/use-reading';
import { Hour } from './hour';
import { InstanceTable, milliseconds } from './table';

const MINUTE_MS = 60_000;

/** The servers, the log between them, and their last hour. */
export function InstancesPage({ app }: PageProps) {
  const { store, api, now, stream } = app;
  const minute = Math.floor(now.value / MINUTE_MS);
  const [reading, again] = useReading({
    stream,
    key: 'instances',
    everyMs: 5000,
    moved: minute,
    read: (signal) => api.get<InstancesAnswer>('/instances', {}, signal),
  });
  const { value } = reading;
  const answer = value.kind === 'ready' ? value.data : undefined;
  const hour = useMemo(() => (answer === undefined ? undefined : lastHour(answer, now.peek())), [answer]);
  const instances = store.instances.value;
  const { value: summary } = store.summary;
  if (summary === undefined) return <Loading title="Instances" />;
  const versions = [...new Set(instances.flatMap(({ version }) => version ?? []))];
  return (
    <>
      <PageHead
        title="Instances"
        end={
          versions.length > 0 && (
            <span class={versions.length > 1 ? 'amber' : 'muted'}>
              {versions.length > 1 ? 'versions' : 'version'} {versions.join(', ')}
            </span>
          )
        }
      >
        <span class="muted">
          {count(instances.length, 'server')}
          {answer !== undefined &&
            `, ${answer.backbone === 'none' ? 'no backbone: the log is a file of this server' : `backbone ${answer.backbone}`}`}
        </span>
      </PageHead>
      <InstanceTable app={app} instances={instances} />
      {value.kind === 'loading' && <p class="muted quiet">Loading the last hour</p>}
      {(value.kind === 'failed' || (value.kind === 'ready' && value.error !== undefined)) && (
        <Failed what="The figures of the last hour are not here." error={value.error} retry={again} />
      )}
      {answer !== undefined && hour !== undefined && (
        <>
          <Three answer={answer} hour={summary.limited ? undefined : hour} />
          {!summary.limited && <Hour hour={hour} />}
        </>
      )}
    </>
  );
}

const DURABILITY: Readonly<Record<string, string>> = {
  durable: 'Durable',
  weak: 'Not durable',
};

interface ThreeProps {
  readonly answer: InstancesAnswer;
  /** undefined: it counts what the token may not see. */
  readonly hour: LastHour | undefined;
}

/** The log, what a confirmed update survives, and how long publishing takes. */
function Three({ answer: { log, durability }, hour }: ThreeProps) {
  return (
    <dl class="three">
      <div>
        <dt>Update log</dt>
        <dd class="figure">
          at {integer(log.head)}
          {log.bytes !== null && `, ${size(log.bytes)}`}
        </dd>
        <dd class="muted">
          begins at {integer(log.begins_at)}, {count(log.documents, 'document')}, epoch{' '}
          <span title={log.epoch}>{log.epoch.slice(0, 8)}</span>
        </dd>
      </div>
      <div>
        <dt>Durability</dt>
        <dd class={durability.kind === 'weak' ? 'figure amber' : 'figure'}>
          {own(DURABILITY, durability.kind) ?? durability.kind.replaceAll('_', ' ')}
        </dd>
        <dd class="muted">{durability.text}</dd>
      </div>
      <div>
        <dt>Publish: median of the hour, p99 of its worst minute</dt>
        {hour === undefined ? (
          <dd class="muted">
            Not shown to a limited token, nor is the last hour: they count what everybody publishes.
          </dd>
        ) : (
          <>
            <dd class="figure">
              {hour.publishP50 === null && hour.publishP99 === null
                ? 'nothing published'
                : `${milliseconds(hour.publishP50)} and ${milliseconds(hour.publishP99)}`}
            </dd>
            <dd class="muted">
              {count(hour.published, 'publish', 'publishes')}, {integer(hour.refused)} refused
            </dd>
          </>
        )}
      </div>
    </dl>
  );
}
