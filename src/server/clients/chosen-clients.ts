import { type KnownClient, preferred } from './known-client.js';
import { plainClients } from './plain-clients.js';

/**
 * The best view of each client, by its key. `each` is called with every view. A connection whose
 * ping is still out is none of them. One without a session may have its connections at several
 * instances.
 */
export function chosenClients(
  lists: readonly (readonly KnownClient[])[],
  each: (client: KnownClient) => void = () => undefined,
): Map<string, KnownClient> {
  const chosen = new Map<string, KnownClient>();
  const plain: KnownClient[] = [];
  for (const list of lists) {
    for (const client of list) {
      if (client.isDoubtful) continue;
      each(client);
      if (client.kind === 'plain') {
        plain.push(client);
        continue;
      }
      const before = chosen.get(client.key);
      chosen.set(client.key, before === undefined ? client : preferred(before, client));
    }
  }
  for (const client of plainClients(plain)) chosen.set(client.key, client);
  return chosen;
}
