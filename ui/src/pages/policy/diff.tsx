import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { hunkTitle, openFiles } from '../../../../src/fleet-rules/policy-files.js';
import { count, integer } from '../../../../src/fleet-rules/words.js';
import type { FileDiff, PolicyDiffAnswer } from '../../../../src/wire/fleet-views.js';
import { Button } from '../../parts/button';

/** Lines that are drawn at first; files that do not fit wait to be asked for. */
const OPEN_LINES = 2000;
/** Lines of one file that are drawn at once. */
const FILE_LINES = 1500;

/** What changed from one commit to another, file by file. */
export function Diff({ answer: { files, total, from } }: { readonly answer: PolicyDiffAnswer }) {
  const open = useMemo(() => openFiles(files, OPEN_LINES), [files]);
  if (total === 0)
    return (
      <p class="muted quiet">
        {from === null ? 'The commit has no policy and no data.' : 'No file of policy or data differs between them.'}
      </p>
    );
  return (
    <>
      {total > files.length && (
        <p class="muted quiet">
          The first {integer(files.length)} of {count(total, 'file')} that differ: the server shows no more at once.
        </p>
      )}
      {files.map((file) => (
        <File key={file.path} file={file} isOpen={open.has(file.path)} />
      ))}
    </>
  );
}

function File({ file, isOpen }: { readonly file: FileDiff; readonly isOpen: boolean }) {
  const shown = useSignal(isOpen ? FILE_LINES : 0);
  const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  return (
    <section class="diff" aria-label={file.path}>
      <header>
        <code class="clip" title={file.path}>
          {file.path}
        </code>
        {file.change !== 'modified' && <span class="tag">{file.change}</span>}
        <span class="end" hidden={file.binary}>
          <span class="accent">+{integer(file.added)}</span> <span class="red">−{integer(file.removed)}</span>
        </span>
      </header>
      {file.binary ? (
        <p class="muted within">A binary file: its lines cannot be compared.</p>
      ) : lines === 0 ? (
        <p class="muted within">
          {file.truncated ? 'The answer of the server ends before this file.' : 'The file has no lines.'}
        </p>
      ) : shown.value === 0 ? (
        <p class="within">
          <Button onClick={() => (shown.value = FILE_LINES)}>Show {count(lines, 'line')}</Button>
        </p>
      ) : (
        <>
          <Lines file={file} most={shown.value} />
          {lines > shown.value && (
            <p class="within">
              <Button onClick={() => (shown.value += FILE_LINES)}>
                Show more of {count(lines - shown.value, 'line')}
              </Button>
            </p>
          )}
          {file.truncated && lines <= shown.value && (
            <p class="muted within">The server leaves out the rest: a diff has at most 20,000 lines.</p>
          )}
        </>
      )}
    </section>
  );
}

const SIGNS = { same: ' ', added: '+', removed: '−' } as const;
const WORDS = { same: '', added: 'added: ', removed: 'removed: ' } as const;

function Lines({ file: { path, hunks }, most }: { readonly file: FileDiff; readonly most: number }) {
  let left = most;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll, also with the keyboard
    <section class="code" tabIndex={0} aria-label={`Changes of ${path}`}>
      {hunks.map(({ header, lines }, index) => {
        const shown = lines.slice(0, Math.max(0, left));
        left -= lines.length;
        if (shown.length === 0) return null;
        return (
          <div key={index} class="hunks">
            <div class="row hunk">
              <span />
              <span />
              <span />
              <span>{hunkTitle(header)}</span>
            </div>
            {shown.map((line) => (
              <div key={`${line.old} ${line.new}`} class={`row ${line.kind}`}>
                <span>{line.old}</span>
                <span>{line.new}</span>
                <span aria-hidden="true">{SIGNS[line.kind]}</span>
                <span>
                  {WORDS[line.kind] !== '' && <span class="sr">{WORDS[line.kind]}</span>}
                  {line.text}
                </span>
              </div>
            ))}
          </div>
        );
      })}
    </section>
  );
}
