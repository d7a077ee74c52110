import { type KnownClient, preferred } from './known-client.js';

/** The best view of each client, by its key. `each` is called with every view. A connection whose ping is still out is none of them. */
export function chosenClients(
  lists: readonly (readonly KnownClient[])[],
  each: (client: KnownClient) => void = () => undefined,
): Map<string, KnownClient> {
  const chosen = new Map<string, KnownClient>();
  for (const list of lists) {
    for (const client of list) {
      if (client.isDoubtful) continue;
      const before = chosen.get(client.key);
      chosen.set(client.key, before === undefined ? client : preferred(before, client));
      each(client);
    }
  }
  return chosen;
}
