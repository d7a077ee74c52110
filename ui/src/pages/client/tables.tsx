import type { ReadonlySignal } from '@preact/signals';
import { own } from '../../../../src/fleet-rules/names-of-others.js';
import { commit, count, DASH, duration, integer } from '../../../../src/fleet-rules/words.js';
import type { ClientAnswer, ClientTransaction } from '../../../../src/wire/client-details.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import { Heads } from '../../parts/heads';
import { Icon, type IconName } from '../../parts/icon';
import { Section } from '../../parts/section';
import { Age } from '../../parts/time';
import { linkTo } from '../../router';

interface TableProps {
  readonly answer: ClientAnswer;
}

/** What it subscribes to, and how far it is on each. */
export function Topics({ answer, row }: TableProps & { readonly row: ReadonlySignal<FleetRow> }) {
  const { topics } = answer;
  const left = answer.client.topics_left_out ?? 0;
  const hasLast = topics.some(({ last }) => last !== null);
  return (
    <Section title="Topics" note={`${integer(topics.length + left)} subscribed`}>
      {topics.length === 0 ? (
        <p class="muted none">It subscribes to nothing: no policy and no data reach it.</p>
      ) : (
        <div class="scroll">
          <table>
            <Heads
              of={[
                'Topic',
                ['Wanted', 'num'],
                ['Held', 'num'],
                ['Behind', 'num'],
                [hasLast ? 'Last update' : '', 'wide opt'],
              ]}
            />
            <tbody>
              {topics.map((topic) => (
                <TopicRow key={topic.topic} topic={topic} answer={answer} policy={row.value.policy} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {left > 0 && <p class="muted none">{`and ${count(left, 'more topic')}`}</p>}
    </Section>
  );
}

interface TopicRowProps extends TableProps {
  readonly topic: ClientAnswer['topics'][number];
  readonly policy: FleetRow['policy'];
}

/** A topic of policy has a commit where a topic of data has a number. */
function TopicRow({ topic: { topic, wanted, held, behind, last }, answer, policy }: TopicRowProps) {
  const isPolicy = wanted === null;
  const distance = isPolicy ? policy.behind : behind;
  return (
    <tr>
      <td>
        <code>{topic}</code>
      </td>
      <td class="num">{isPolicy ? <code>{commit(answer.policy_head)}</code> : integer(wanted)}</td>
      <td class="num">{isPolicy ? <code>{commit(policy.held)}</code> : integer(held)}</td>
      <td class={`num ${(distance ?? 0) > 0 ? 'amber' : 'muted'}`}>{integer(distance)}</td>
      <td class="wide muted opt" title={last ?? undefined}>
        {last}
      </td>
    </tr>
  );
}

interface Problem {
  readonly kind: string;
  readonly icon: IconName;
  readonly tone: string;
  readonly path: string;
  readonly reason: string;
  readonly since: number | null;
}

interface ProblemsProps extends TableProps {
  readonly now: ReadonlySignal<number>;
}

/**
 * What it cannot write, and what it holds that nobody knows any more. Nothing is shown where there
 * is nothing.
 */
export function Problems({ answer, now }: ProblemsProps) {
  const problems = problemsOf(answer);
  const { client, details } = answer;
  const failing = Math.max(client.failing_total ?? 0, problems.length - (details?.orphaned.length ?? 0));
  if (problems.length === 0) return null;
  return (
    <Section title="Failing, blocked, orphaned" note={integer(failing + (details?.orphaned_total ?? 0))}>
      <div class="scroll">
        <table>
          <Heads of={['Kind', 'Path', 'Reason', ['Since', 'num opt']]} />
          <tbody>
            {problems.map(({ kind, icon, tone, path, reason, since }) => (
              <tr key={`${kind} ${path} ${reason}`}>
                <td>
                  <span class="st">
                    <Icon name={icon} tone={tone} />
                    {kind}
                  </span>
                </td>
                <td>
                  <code>{path === '' ? DASH : path}</code>
                </td>
                <td class="wide" title={reason}>
                  {reason}
                </td>
                <td class="num muted opt">
                  <Age at={since} now={now} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

const BLOCKED = { kind: 'Blocked', icon: 'refused', tone: 'red' } as const;
const FAILING = { kind: 'Failing', icon: 'warning', tone: 'red' } as const;

/**
 * A client says of an update that is blocked its seq, and beside that what fails and why; of older
 * clients the seq is all there is.
 */
function problemsOf({ client, details }: ClientAnswer): Problem[] {
  const failing = client.failing.map(({ path, error, kind, since = null }) => ({
    ...(kind === 'refused' ? BLOCKED : FAILING),
    ...{ path, reason: error, since },
  }));
  const blocked = failing.filter(({ kind }) => kind === BLOCKED.kind);
  return [
    ...blocked,
    ...client.data.blocked.slice(blocked.length).map((seq) => ({
      ...BLOCKED,
      ...{ path: '', reason: `the engine, or a rule, refuses update ${integer(seq)}`, since: null },
    })),
    ...failing.filter(({ kind }) => kind === FAILING.kind),
    ...(details?.orphaned ?? []).map(({ path, reason, since }) => ({
      kind: 'Orphaned',
      icon: 'not_told' as const,
      tone: 'muted',
      path,
      reason,
      since,
    })),
  ];
}

const OUTCOMES: Readonly<Record<string, { icon: IconName; tone: string }>> = {
  applied: { icon: 'acknowledged', tone: 'accent' },
  refused: { icon: 'refused', tone: 'red' },
  failing: { icon: 'warning', tone: 'red' },
};

/** Why a client tells nothing of itself. */
const MISSING: Readonly<Record<string, string>> = {
  away: 'The client is away: what it did is known when it is back.',
  plain: 'An OPAL client never says what it does.',
  old: 'This version of the client cannot be asked: update it to see its transactions here.',
  no_answer: 'The client did not answer in time; this page asks again with its next report.',
  limited: 'Your token is limited: what the client did is shown to tokens without limits.',
};

/** What it did last. */
export function Transactions({ answer, now }: TableProps & { readonly now: ReadonlySignal<number> }) {
  const { details, details_missing: missing } = answer;
  return (
    <Section title="Recent transactions" note={details === null ? undefined : 'newest first'}>
      {details === null ? (
        <p class="muted none">{own(MISSING, missing ?? '') ?? 'The client says nothing of them.'}</p>
      ) : details.transactions.length === 0 ? (
        <p class="muted none">None since it started.</p>
      ) : (
        <div class="scroll">
          <table>
            <Heads of={['What', 'Outcome', ['Took', 'num'], ['Wrote', 'opt'], ['Ago', 'num']]} />
            <tbody>
              {details.transactions.map((transaction) => (
                <TransactionRow
                  key={`${transaction.kind} ${transaction.id} ${transaction.at}`}
                  transaction={transaction}
                  now={now}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  );
}

function TransactionRow({
  transaction,
  now,
}: {
  readonly transaction: ClientTransaction;
  readonly now: ReadonlySignal<number>;
}) {
  const { kind, id, seq, outcome, at, took_ms: took, error } = transaction;
  const { icon, tone } = own(OUTCOMES, outcome) ?? { icon: 'none', tone: 'muted' };
  return (
    <tr>
      <td>
        {kind} <ChangeName kind={kind} id={id} seq={seq} />
      </td>
      <td>
        <span class="st">
          <Icon name={icon as IconName} tone={tone} />
          {outcome.charAt(0).toUpperCase() + outcome.slice(1)}
        </span>
      </td>
      <td class="num">{took === null ? DASH : duration(took / 1000)}</td>
      <td class={error === null ? 'wide opt muted' : 'wide opt red'} title={error ?? transaction.wrote.join('\n')}>
        {error ?? wroteText(transaction)}
      </td>
      <td class="num muted">
        <Age at={at} now={now} />
      </td>
    </tr>
  );
}

/** Leads to the change; what a client loads by itself, as the initial load, is none. */
function ChangeName({ kind, id, seq }: Pick<ClientTransaction, 'kind' | 'id' | 'seq'>) {
  if (kind === 'policy') {
    return (
      <a href={linkTo('change', { id })}>
        <code>{commit(id)}</code>
      </a>
    );
  }
  if (seq === null) return <span class="muted">{id.slice(0, 24).replaceAll('-', ' ')}</span>;
  return <a href={linkTo('change', { id: String(seq) })}>{integer(seq)}</a>;
}

function wroteText({ kind, wrote, wrote_total: total }: ClientTransaction): string {
  if (total === 0) return 'nothing';
  const [first] = wrote;
  if (first === undefined) return count(total, kind === 'policy' ? 'file' : 'document');
  return total === 1 ? first : `${first} and ${integer(total - 1)} more`;
}
