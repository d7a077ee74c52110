import './sign-in.css';
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { ApiError } from '../../api';
import type { App } from '../../app';
import { Brand } from '../../parts/brand';
import { Button } from '../../parts/button';
import { Icon } from '../../parts/icon';
import type { SessionState } from '../../session';

interface SignInProps {
  readonly app: App;
  readonly why: (SessionState & { kind: 'out' })['why'];
}

const REASONS: Readonly<Record<SignInProps['why'], string>> = {
  new: '',
  expired: 'Your session has ended. Sign in again to go on where you were.',
  left: 'You are signed out.',
};

/**
 * Takes a token for a session. The address stays, so that who signs in is where the link led to.
 */
export function SignInPage({ app, why }: SignInProps) {
  const problem = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);

  function fail(text: string): void {
    problem.value = text;
    field.current?.focus();
    field.current?.select();
  }
  async function signIn(): Promise<void> {
    const token = field.current?.value.trim() ?? '';
    if (token === '') return fail('Paste a token first.');
    isBusy.value = true;
    try {
      await app.session.signIn(token);
    } catch (error) {
      fail(problemText(error));
    } finally {
      isBusy.value = false;
    }
  }
  const isWrong = problem.value !== undefined;
  return (
    <main class="sign-in" id="main">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBusy.value) void signIn();
        }}
      >
        <p class="brand">
          <Brand app={app} />
        </p>
        <h1>Sign in to see the fleet</h1>
        {REASONS[why] !== '' && <p role="status">{REASONS[why]}</p>}
        <div>
          <label for="token">Token</label>
          <p id="kinds" class="muted">
            Of kind listener (reads) or datasource (reads, publishes).
          </p>
        </div>
        <input
          ref={field}
          class="field"
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          aria-invalid={isWrong ? 'true' : undefined}
          aria-describedby={isWrong ? 'problem kinds' : 'kinds'}
        />
        {isWrong && (
          <p class="problem" id="problem" role="alert">
            <Icon name="refused" />
            <span>{problem.value}</span>
          </p>
        )}
        <Button kind="main" submits off={isBusy.value ? 'The server looks at the token' : undefined}>
          Sign in
        </Button>
        <p class="muted">
          You stay signed in until the token ends, at most 8 hours. To make one:{' '}
          <code>policysync token --type listener</code>
        </p>
      </form>
    </main>
  );
}

/**
 * What is wrong with the token, and what to do. The server has a sentence for each way that a token
 * is of no use.
 */
function problemText(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  const isOfToken = error.status === 401 || error.code === 'sign_in_refused';
  return isOfToken ? error.message : `${error.message} ${error.remedy}`;
}
