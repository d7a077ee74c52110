import { CommanderError } from 'commander';
import { EXIT } from '../../kit/run-program.js';
import { type Asker, type DeployTarget, MODES, type Mode, TARGETS, type TlsChoice } from './plan.js';

const MODE_HINTS: Readonly<Record<Mode, string>> = {
  local: 'server, client and OPA on this machine, without authentication',
  network: 'clients on other machines: keys, tokens, all interfaces',
};
const TARGET_HINTS: Readonly<Record<DeployTarget, string>> = {
  compose: 'compose.yaml for Docker Compose',
  kubernetes: 'values for the Helm chart, and a Secret',
  systemd: 'units, and a script that installs them',
};

/** Asks at the terminal. Ends the command with code 2 where somebody cancels. */
export async function terminalAsker(): Promise<Asker> {
  const { cancel, isCancel, log, multiselect, select, text } = await import('@clack/prompts');
  function answered<T>(answer: T): Exclude<T, symbol> {
    if (!isCancel(answer)) return answer as Exclude<T, symbol>;
    cancel('Cancelled: nothing was written.');
    throw new CommanderError(EXIT.usage, 'init.cancelled', 'cancelled');
  }
  return {
    repository: async (problem) => {
      if (problem !== undefined) log.error(problem);
      const answer = await text({
        message: 'Git repository of your policies',
        placeholder: 'https://git.example/policies.git, git@host:org/policies.git, or a path',
        validate: (value) => ((value ?? '').trim() === '' ? 'Give a URL or a path.' : undefined),
      });
      return answered(answer);
    },
    mode: async () =>
      answered(
        await select({
          message: 'Where do the clients run?',
          options: MODES.map((value) => ({ value, label: value, hint: MODE_HINTS[value] })),
        }),
      ),
    branch: async (head, branches) => {
      if (branches.length === 0) {
        return answered(await text({ message: 'Branch (the repository has none yet)', initialValue: 'main' }));
      }
      const ordered = [...branches].sort((a, b) => Number(b === head) - Number(a === head));
      const options = ordered.map((value) => ({ value, label: value }));
      return answered(await select({ message: 'Branch', options, maxItems: 10 }));
    },
    tls: async () =>
      answered(
        await select<TlsChoice>({
          message: 'TLS of the server',
          options: [
            { value: 'trial', label: 'a certificate for a trial', hint: 'an authority of its own, made by openssl' },
            { value: 'none', label: 'none here', hint: 'a proxy has it, or you set it up later' },
          ],
        }),
      ),
    targets: async () =>
      answered(
        await multiselect({
          message: 'More files (space selects, none is fine)',
          options: TARGETS.map((value) => ({ value, label: value, hint: TARGET_HINTS[value] })),
          required: false,
        }),
      ),
    registry: async () =>
      answered(
        await text({
          message: 'Registry of the images (empty: those of this machine)',
          placeholder: 'registry.example',
          defaultValue: '',
        }),
      ),
  };
}
