import { shortDoubt, shortFleetAnswer } from '../../../src/fleet-rules/answer.js';
import type { PageName } from '../router';
import type { Heard } from '../stream/store';

const NAMES: Readonly<Record<PageName, string>> = {
  fleet: '',
  client: 'Client',
  changes: 'Changes',
  change: 'Change',
  data: 'Data',
  policy: 'Policy',
  instances: 'Instances',
  'sign-in': 'Sign in',
};

interface TitleOf {
  readonly page: PageName | undefined;
  readonly isLost: boolean;
  readonly environment?: string | undefined;
}

/**
 * The title of the tab: `61/122 5b1f0c2`, with the environment, and on other pages than Fleet with
 * their name. Marks stand before it: the stream is cut, or what is served may not be the newest.
 */
export function tabTitle({ summary, source }: Heard, { page, isLost, environment = '' }: TitleOf): string {
  const answer = shortFleetAnswer(summary);
  const text = [
    isLost ? 'cut' : '',
    shortDoubt(source),
    answer,
    environment,
    page === undefined ? 'No such page' : NAMES[page],
  ]
    .filter((part) => part !== '')
    .join(' · ');
  return answer === '' ? (text === '' ? 'PolicySync' : `${text} · PolicySync`) : text;
}
