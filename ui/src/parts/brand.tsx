import type { App } from '../app';
import { Icon } from './icon';

/** The name of the page, and of the environment that it shows. */
export function Brand({ app }: { readonly app: App }) {
  const environment = app.session.environment.value;
  return (
    <>
      <Icon name="brand" tone="accent" />
      PolicySync{' '}
      {environment && (
        <small class="clip" title={environment}>
          {environment}
        </small>
      )}
    </>
  );
}
