import { useSignal } from '@preact/signals';
import type { App } from '../../app';
import { Button } from '../../parts/button';
import { mayAct } from '../../session';

interface LookNowProps {
  readonly app: App;
  /** The server was asked to look; what it finds comes with the stream. */
  readonly onLooked: () => void;
}

/** Has the server look at the policy source now, instead of at its next interval. */
export function LookNow({ app, onLooked }: LookNowProps) {
  const isAsking = useSignal(false);
  const failure = useSignal<string | undefined>(undefined);
  async function look(): Promise<void> {
    isAsking.value = true;
    failure.value = undefined;
    try {
      await app.api.post('/policy/refresh', {});
      app.say('The server looks at the policy source');
      onLooked();
    } catch (error) {
      failure.value = error instanceof Error ? error.message : String(error);
    } finally {
      isAsking.value = false;
    }
  }
  const off = isAsking.value
    ? 'The server is being asked'
    : mayAct(app.session.state.value)
      ? undefined
      : 'Needs a token of the kind datasource';
  return (
    <>
      {failure.value !== undefined && (
        <span class="red" role="alert">
          The server did not look: {failure.value}
        </span>
      )}
      <Button onClick={() => void look()} off={off}>
        Look now
      </Button>
    </>
  );
}
