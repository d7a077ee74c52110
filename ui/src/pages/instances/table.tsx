import { fieldWord } from '../../../../src/fleet-rules/search.js';
import { age, DASH, duration, integer, NBSP, size } from '../../../../src/fleet-rules/words.js';
import type { FleetInstance } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';
import { Heads } from '../../parts/heads';
import { Icon, type IconName } from '../../parts/icon';
import { linkTo } from '../../router';

/** States with what they mean. */
const STATES: Readonly<Record<string, readonly [word: string, icon: IconName, tone: string, meaning: string]>> = {
  in_step: ['In step', 'check', 'muted', 'It has seen every update of the log'],
  behind: ['Behind', 'warning', 'amber', 'It has not seen the newest updates yet: its clients hear of them later'],
  slow_backbone: ['Slow backbone', 'warning', 'amber', 'Its round trips to the backbone take long'],
  refuses_updates: [
    'Refuses updates',
    'refused',
    'red',
    'Its update log takes no updates: publishes get 507, all else goes on',
  ],
  backbone_away: [
    'No backbone',
    'refused',
    'red',
    'It cannot reach the backbone: its clients go on with what they hold',
  ],
  draining: ['Ends', 'away', 'amber', 'It sends its clients to other instances and ends'],
  silent: ['Silent', 'away', 'amber', 'It has said nothing for a while: its clients may be missing here'],
};

const SOURCES: Readonly<Record<string, string>> = {
  failing: 'fails to reach the policy source',
  starting: 'fetches the policy source',
};
/** A round trip of more than this is slow for a backbone. */
const SLOW_MS = 20;
/** More than this between two turns of the event loop is felt. */
const LATE_MS = 50;

/** The servers, each with how it is. */
export function InstanceTable({ app, instances }: { readonly app: App; readonly instances: readonly FleetInstance[] }) {
  const now = app.now.value;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls, also with the keyboard
    <section class="scroll" tabIndex={0} aria-label="Server instances">
      <table class="instances">
        <Heads
          of={[
            'Instance',
            'State',
            ['Clients', 'num'],
            ['Log at', 'num opt'],
            ['Behind', 'num'],
            ['Backbone', 'num opt'],
            ['Loop delay', 'num opt'],
            ['Memory', 'num opt'],
            ['Up', 'num opt'],
          ]}
        />
        <tbody>
          {instances.map((one) => (
            <Row key={one.instance} one={one} now={now} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Row({ one, now }: { readonly one: FleetInstance; readonly now: number }) {
  const [word, icon, tone, meaning] = STATES[one.state] ?? [one.state.replaceAll('_', ' '), 'none', 'muted', ''];
  const isSlow = one.backbone_ms !== null && one.backbone_ms > SLOW_MS;
  const isLate = one.loop_delay_ms !== null && one.loop_delay_ms > LATE_MS;
  const facts = [one.here ? 'this page' : '', one.source === null ? '' : (SOURCES[one.source] ?? '')].filter(
    (text) => text !== '',
  );
  return (
    <tr>
      <td>
        <a
          class="strong"
          href={linkTo('fleet', { query: { q: fieldWord('instance', one.instance) } })}
          title={`Instance ${one.instance}${one.version === null ? '' : `, version ${one.version}`}`}
        >
          {one.name}
        </a>
        {facts.length > 0 && <span class="muted opt"> {facts.join(', ')}</span>}
      </td>
      <td>
        <span class={tone === 'muted' ? 'st muted' : 'st'} title={meaning}>
          <Icon name={icon} tone={tone} />
          {word}
          {one.state === 'silent' && ` for ${age(one.seen_at, now)}`}
        </span>
      </td>
      <td class="num">{integer(one.clients)}</td>
      <td class="num opt">{integer(one.log_at)}</td>
      <td class={one.behind > 0 ? 'num amber' : 'num muted'}>{integer(one.behind)}</td>
      <td class={isSlow ? 'num opt amber' : 'num opt'}>{milliseconds(one.backbone_ms)}</td>
      <td class={isLate ? 'num opt amber' : 'num opt'}>{milliseconds(one.loop_delay_ms)}</td>
      <td class="num opt">{size(one.memory_bytes)}</td>
      <td class="num muted opt">{one.started_at === null ? DASH : duration((now - one.started_at) / 1000)}</td>
    </tr>
  );
}

/** Milliseconds with a decimal while they are few. */
export function milliseconds(ms: number | null): string {
  if (ms === null) return DASH;
  if (ms >= 1000) return duration(ms / 1000);
  return `${ms < 10 ? ms.toFixed(1) : integer(Math.round(ms))}${NBSP}ms`;
}
