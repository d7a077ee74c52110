import { Fragment } from 'preact';
import { baseName, byDirectory } from '../../../../src/fleet-rules/policy-files.js';
import { count, integer, size } from '../../../../src/fleet-rules/words.js';
import type { PolicyFile, PolicyFilesAnswer } from '../../../../src/wire/fleet-views.js';
import { Banner } from '../../parts/banner';
import { Heads } from '../../parts/heads';
import { Icon } from '../../parts/icon';

/** Rows that are drawn. */
const ROWS = 1000;

/** The files of a commit by directory, in the order in which an engine loads them. */
export function Files({ answer }: { readonly answer: PolicyFilesAnswer }) {
  const { files, total, manifests, ignored, warnings } = answer;
  const shown = files.slice(0, ROWS);
  const told = new Set(files.flatMap(({ path, warning }) => (warning === null ? [] : [path])));
  const others = warnings.filter(({ file }) => !told.has(file));
  return (
    <>
      <p class="muted quiet">
        {count(total, 'file')}, {size(files.reduce((sum, file) => sum + file.bytes, 0))}
        {' \u00b7 '}
        {manifests.length === 0
          ? 'no manifest: files load in the order of their paths'
          : `order of ${manifests.join(', ')}`}
        {ignored > 0 && ` \u00b7 ${count(ignored, 'other file')} left out`}
      </p>
      {others.map(({ text }) => (
        <Banner key={text} kind="warn" what="To know of this commit:">
          {text}
        </Banner>
      ))}
      {files.length === 0 ? (
        <p class="muted quiet">The commit has no policy and no data.</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls, also with the keyboard
        <section class="scroll" tabIndex={0} aria-label="Files">
          <table class="files">
            <Heads of={[['Order', 'num'], 'File', ['Package or path', 'opt'], ['Size', 'num'], 'Note']} />
            <tbody>
              {byDirectory(shown).map(({ path, files: inside }) => (
                <Fragment key={path}>
                  <tr>
                    <td />
                    <th scope="rowgroup" colSpan={4} class="mono">
                      {path === '' ? '/' : `${path}/`}
                    </th>
                  </tr>
                  {inside.map((file) => (
                    <Row key={file.path} file={file} isNested={path !== ''} />
                  ))}
                </Fragment>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {total > shown.length && (
        <p class="muted quiet">
          The first {integer(shown.length)} of {count(total, 'file')}, in load order.
        </p>
      )}
    </>
  );
}

function Row({ file, isNested }: { readonly file: PolicyFile; readonly isNested: boolean }) {
  const name = file.package ?? '';
  return (
    <tr>
      <td class="num muted" title={file.listed ? 'A manifest gives it this place' : 'No manifest names it'}>
        {integer(file.order)}
      </td>
      <td>
        <span class={isNested ? 'mono nested' : 'mono'} title={file.path}>
          {baseName(file.path)}
        </span>
      </td>
      <td class="mono muted opt">{name}</td>
      <td class="num">{size(file.bytes)}</td>
      <td class="wide" title={file.warning ?? undefined}>
        {file.warning !== null && (
          <span class="st">
            <Icon name="warning" tone="amber" />
            <span class="clip amber">{file.warning}</span>
          </span>
        )}
      </td>
    </tr>
  );
}
