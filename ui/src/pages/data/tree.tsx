import { useEffect, useRef } from 'preact/hooks';
import { type TreeNode, type TreeRow, treeKey } from '../../../../src/fleet-rules/document-tree.js';
import { commit, count, DASH, integer, size } from '../../../../src/fleet-rules/words.js';
import type { App } from '../../app';
import { Heads } from '../../parts/heads';
import { Icon } from '../../parts/icon';
import { Age } from '../../parts/time';
import { retained } from './retained';

interface TreeProps {
  readonly app: App;
  readonly rows: readonly TreeRow[];
  /** The path of the chosen row; the first row is the tab stop where it is none of them. */
  readonly chosen: string | null;
  readonly onChoose: (path: string, how: 'go' | 'replace') => void;
  readonly onToggle: (path: string) => void;
}

/** The paths as a table that folds. One tab stop; arrows go through it. */
export function Tree({ app, rows, chosen, onChoose, onToggle }: TreeProps) {
  const table = useRef<HTMLTableElement>(null);
  const wantsFocus = useRef(false);
  const stop = rows.some(({ node }) => node.path === chosen) ? chosen : (rows[0]?.node.path ?? null);
  useEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    table.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  });
  function onKeyDown(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || stop === null) return;
    if (event.key === 'Enter') {
      event.preventDefault();
      onChoose(stop, 'go');
      return;
    }
    const to = treeKey(event.key, rows, stop);
    if (to === undefined) return;
    event.preventDefault();
    wantsFocus.current = true;
    if ('go' in to) onChoose(to.go, 'replace');
    else {
      onToggle(to.toggle);
      if (chosen !== stop) onChoose(stop, 'replace');
    }
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table whose rows fold
    <table ref={table} class="documents" role="treegrid" aria-label="Documents by path" onKeyDown={onKeyDown}>
      <Heads
        of={[
          'Path',
          ['Source', 'source'],
          ['Seq', 'num'],
          ['Size', 'num'],
          ['Hash', 'hash'],
          ['Changed', 'num opt'],
          ['Retained', 'kept'],
        ]}
      />
      <tbody>
        {rows.map((row) => (
          <Row
            key={row.node.path}
            app={app}
            row={row}
            isChosen={row.node.path === chosen}
            isStop={row.node.path === stop}
            onChoose={onChoose}
            onToggle={onToggle}
          />
        ))}
      </tbody>
    </table>
  );
}

interface RowProps extends Pick<TreeProps, 'app' | 'onChoose' | 'onToggle'> {
  readonly row: TreeRow;
  readonly isChosen: boolean;
  readonly isStop: boolean;
}

function Row({ app, row: { node, level, position, siblings, open }, isChosen, isStop, onChoose, onToggle }: RowProps) {
  const { document } = node;
  const source = node.source ?? 'several';
  return (
    <tr
      aria-level={level}
      aria-posinset={position}
      aria-setsize={siblings}
      aria-expanded={open ?? undefined}
      aria-selected={isChosen}
      tabIndex={isStop ? 0 : -1}
      onClick={() => onChoose(node.path, 'go')}
      onDblClick={() => open !== null && onToggle(node.path)}
    >
      <td>
        <span class="path" style={{ paddingLeft: `${(level - 1) * 16}px` }}>
          <Twist open={open} onToggle={() => onToggle(node.path)} />
          <code class="clip" title={node.path}>
            {node.name}
          </code>
          <Marks node={node} isClosed={open === false} />
        </span>
      </td>
      <td class="source muted" title={source}>
        {source}
      </td>
      <td class="num">{integer(node.seq)}</td>
      <td class="num">{size(node.bytes)}</td>
      <td class="hash muted mono">{document === null ? '' : hashStart(document.hash)}</td>
      <td class="num muted opt">
        <Age at={node.changedAt} now={app.now} />
      </td>
      <td class="kept muted">{document === null ? '' : retained(document, app.now.peek())}</td>
    </tr>
  );
}

/** Opens and closes with the pointer; the keyboard has its arrows. */
function Twist({ open, onToggle }: { readonly open: boolean | null; readonly onToggle: () => void }) {
  if (open === null) return <span class="twist" />;
  return (
    <button
      type="button"
      class="twist"
      tabIndex={-1}
      aria-hidden="true"
      onClick={(event) => {
        event.stopPropagation();
        onToggle();
      }}
    >
      <Icon name={open ? 'down' : 'right'} tone="muted" />
    </button>
  );
}

function Marks({ node, isClosed }: { readonly node: TreeNode; readonly isClosed: boolean }) {
  return (
    <>
      {isClosed && <span class="muted few">{integer(node.documents)}</span>}
      {node.refusedBy > 0 && (node.document !== null || isClosed) && (
        <span class="tag red" title={`${count(node.refusedBy, 'client')} cannot write it now`}>
          <Icon name="refused" tone="red" />
          {integer(node.refusedBy)} failing
        </span>
      )}
    </>
  );
}

function hashStart(hash: string | null): string {
  return hash === null ? DASH : commit(hash);
}
