import type { ComponentChildren } from 'preact';

interface SectionProps {
  readonly title: string;
  /** Stands at the right of the title. */
  readonly note?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a page with a title and a rule below it. */
export function Section({ title, note, children }: SectionProps) {
  return (
    <section class="sec">
      <header>
        <h2>{title}</h2>
        {note !== undefined && <span class="muted note">{note}</span>}
      </header>
      {children}
    </section>
  );
}

/** Names and values below each other. */
export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface PageHeadProps {
  readonly title: ComponentChildren;
  /** The page above: `{ text: 'Changes', href: '#/changes' }`. */
  readonly above?: { readonly text: string; readonly href: string } | undefined;
  readonly children?: ComponentChildren;
  /** Buttons and notes at the right. */
  readonly end?: ComponentChildren;
}

/** The line with the title of a page. */
export function PageHead({ title, above, children, end }: PageHeadProps) {
  return (
    <div class="page-head">
      {above !== undefined && (
        <a class="crumb" href={above.href}>
          {above.text}
        </a>
      )}
      <h1 tabIndex={-1}>{title}</h1>
      {children}
      {end !== undefined && <div class="end">{end}</div>}
    </div>
  );
}
