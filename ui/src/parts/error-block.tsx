import type { ComponentChildren } from 'preact';

interface ErrorBlockProps {
  /** Where: `file:line:col`, a path; empty: nowhere. */
  readonly place: string;
  readonly message: string;
  /** Lines of the source around the place. */
  readonly source?:
    | { readonly first: number; readonly hit: number; readonly lines: readonly string[] }
    | null
    | undefined;
  /** What the engine does meanwhile, who else, where to look next. */
  readonly children?: ComponentChildren;
}

/** An error of policy or data with its place and source. */
export function ErrorBlock({ place, message, source, children }: ErrorBlockProps) {
  return (
    <section class="err" aria-label="Error">
      <header>
        {place !== '' && <code>{place}</code>}
        <span>{message}</span>
      </header>
      {source && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll, also with the keyboard
        <section class="code" tabIndex={0} aria-label="Source">
          {source.lines.map((text, index) => {
            const line = source.first + index;
            return (
              <div key={line} class={line === source.hit ? 'ln hit' : 'ln'}>
                <span>{line}</span>
                <span>{text}</span>
              </div>
            );
          })}
        </section>
      )}
      {children !== undefined && <footer>{children}</footer>}
    </section>
  );
}
