import { Client } from 'undici';

/** Publishes data updates over one connection, as both systems take them. `await using` closes it. */
export interface Publisher extends AsyncDisposable {
  /** Resolves when the server has answered 200; `query`: as it is asked to. */
  publish(entries: readonly object[], reason?: string, query?: string): Promise<void>;
}

export function publisher(serverUrl: string): Publisher {
  // A large body on a busy machine takes a while.
  const client = new Client(serverUrl, { headersTimeout: 60_000, bodyTimeout: 60_000 });
  return {
    publish: async (entries, reason = 'bench', query = '') => {
      const { statusCode, body } = await client.request({
        method: 'POST',
        path: `/data/config${query}`,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ entries, reason }),
      });
      const text = await body.text();
      if (statusCode !== 200) throw new Error(`publishing was answered ${statusCode}: ${text}`);
    },
    [Symbol.asyncDispose]: () => client.destroy(),
  };
}

/** A PUT of the document at a URL. */
export function urlEntry(url: string, path: string): object {
  return { url, topics: ['policy_data'], dst_path: path, save_method: 'PUT' };
}
