import { changeTitle } from '../../../../src/fleet-rules/change-words.js';
import type { TreeNode } from '../../../../src/fleet-rules/document-tree.js';
import { fieldWord } from '../../../../src/fleet-rules/search.js';
import { commit, count, integer, moment, size } from '../../../../src/fleet-rules/words.js';
import type { ChangesAnswer } from '../../../../src/wire/fleet.js';
import type { DataDocument } from '../../../../src/wire/fleet-views.js';
import type { App } from '../../app';
import { Banner } from '../../parts/banner';
import { Button } from '../../parts/button';
import { Failed } from '../../parts/empty';
import { Heads } from '../../parts/heads';
import { Icon } from '../../parts/icon';
import { Facts, Section } from '../../parts/section';
import { Age } from '../../parts/time';
import { useGet } from '../../parts/use-get';
import { linkTo } from '../../router';
import { retained } from './retained';
import { Value } from './value';

const HISTORY = 20;

interface DetailProps {
  readonly app: App;
  readonly node: TreeNode;
  /** Goes back to the path in the tree, where that stands above. */
  readonly onBack: () => void;
}

/** What is known of one path. */
export function Detail({ app, node, onBack }: DetailProps) {
  const { document } = node;
  return (
    <aside class="detail" aria-label={`Document ${node.path}`}>
      <div class="back">
        <Button kind="quiet" onClick={onBack}>
          <Icon name="up" tone="muted" /> Paths
        </Button>
      </div>
      <h2 class="mono">{node.path}</h2>
      {document === null ? <Below node={node} app={app} /> : <One app={app} document={document} />}
      <History key={`${node.path} ${node.seq}`} app={app} path={node.path} />
    </aside>
  );
}

function One({ app, document }: { readonly app: App; readonly document: DataDocument }) {
  const { path, refused_by: refusedBy, refusal, topics, clients, seq } = document;
  const inTopics = topics.map((topic) => fieldWord('topic', topic)).join(' ');
  const who = topics.length === 1 ? inTopics : '';
  return (
    <>
      {refusedBy > 0 && (
        <Banner
          kind="bad"
          what={`${count(refusedBy, 'client')} cannot write it:`}
          action={
            <a href={linkTo('fleet', { query: { q: fieldWord('error', path) } })}>
              Which {refusedBy === 1 ? 'client' : 'clients'}
            </a>
          }
        >
          {refusal?.text}
          {refusal != null && refusal.clients < refusedBy && ` (${refusal.clients} of them)`}
        </Banner>
      )}
      <Facts
        facts={[
          ['Source', <SourceOf key="source" document={document} />],
          [
            'Seq',
            document.origin === 'base' ? (
              `${integer(seq)}, an entry of the data configuration`
            ) : (
              <a key="seq" href={linkTo('change', { id: String(seq) })}>
                {integer(seq)}
              </a>
            ),
          ],
          ['Written by', writtenBy(document)],
          ...(document.versions > 1
            ? [['Versions', `${integer(document.versions)}: clients of other topics hold another one`] as const]
            : []),
          ['Size', document.bytes === null ? 'not known: the server does not fetch it' : size(document.bytes)],
          ['Hash', document.hash === null ? 'not known' : <code key="hash">sha256:{document.hash}</code>],
          ['Changed', document.changed_at === null ? 'not known' : moment(document.changed_at, app.now.peek())],
          ...(document.publisher === null ? [] : [['Publisher', document.publisher] as const]),
          ...(document.reason === null || document.reason === '' ? [] : [['Reason', document.reason] as const]),
          ['Retained', retained(document, app.now.peek())],
          [
            'Who gets it',
            <span key="who">
              {who === '' ? (
                count(clients, 'client')
              ) : (
                <a href={linkTo('fleet', { query: { q: who } })}>{count(clients, 'client')}</a>
              )}
              <span class="muted"> by {topics.length === 1 ? 'topic' : 'topics'} </span>
              {topics.map((topic, index) => (
                <span key={topic}>
                  {index > 0 && ', '}
                  {topics.length === 1 ? (
                    <code>{topic}</code>
                  ) : (
                    <a href={linkTo('fleet', { query: { q: fieldWord('topic', topic) } })}>
                      <code>{topic}</code>
                    </a>
                  )}
                </span>
              ))}
            </span>,
          ],
        ]}
      />
      <Value key={`${path} ${seq}`} app={app} document={document} />
    </>
  );
}

function writtenBy({ method, patches }: DataDocument): string {
  if (method === 'PATCH') return 'PATCH: there is no document of its own at this path';
  return patches === 0 ? method : `${method}, and ${count(patches, 'patch', 'patches')} on top of it`;
}

function SourceOf({ document: { source } }: { readonly document: DataDocument }) {
  return source === 'inline' ? <>inline: the update has the value</> : <code>{source}</code>;
}

function Below({ app, node }: { readonly app: App; readonly node: TreeNode }) {
  return (
    <Facts
      facts={[
        ['Documents', `${integer(node.documents)} at and below this path`],
        ['Source', node.source ?? 'several'],
        ['Newest seq', integer(node.seq)],
        ['Size', node.bytes === null ? 'not known: the server does not fetch all of it' : size(node.bytes)],
        ['Changed', moment(node.changedAt, app.now.peek())],
      ]}
    />
  );
}

/** The updates at, below or above a path that the log still has. */
function History({ app, path }: { readonly app: App; readonly path: string }) {
  const [fetched, again] = useGet<ChangesAnswer>(app, '/changes', { path, limit: HISTORY });
  const { value } = fetched;
  return (
    <Section title="History" note="from the log">
      {value.kind === 'loading' && <p class="muted quiet">Loading</p>}
      {value.kind === 'failed' && <Failed what="The history is not here." error={value.error} retry={again} />}
      {value.kind === 'ready' && value.data.changes.length === 0 && (
        <p class="muted quiet">The log has no update of this path any more.</p>
      )}
      {value.kind === 'ready' && value.data.changes.length > 0 && (
        <>
          <table class="history">
            <Heads of={['Seq', 'Reason', ['Entries', 'num'], ['Ago', 'num']]} />
            <tbody>
              {value.data.changes.map((change) => (
                <tr key={`${change.kind} ${change.id}`}>
                  <td>
                    <a href={linkTo('change', { id: change.id })}>
                      {change.kind === 'policy' ? commit(change.id) : integer(Number(change.id))}
                    </a>
                  </td>
                  <td class="wide" title={[changeTitle(change), change.by ?? ''].filter(Boolean).join(', ')}>
                    {changeTitle(change)}
                  </td>
                  <td class="num">{integer(change.size)}</td>
                  <td class="num muted">
                    <Age at={change.at} now={app.now} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {value.data.next !== null && (
            <p class="muted quiet">
              The newest {HISTORY}. <code>policysync log --path {path}</code> has those before.
            </p>
          )}
        </>
      )}
    </Section>
  );
}
