import type { FleetInstance } from '../../wire/fleet.js';
import { printable } from '../kit/text.js';

/** Which instances say that the update log refuses updates; undefined: none does. Pure. */
export function refusingText(instances: readonly FleetInstance[]): string | undefined {
  const names = instances.filter(({ state }) => state === 'refuses_updates').map(({ name }) => printable(name, 64));
  if (names.length === 0) return undefined;
  return `the update log refuses updates, as ${names.join(', ')} ${names.length === 1 ? 'says' : 'say'}`;
}
