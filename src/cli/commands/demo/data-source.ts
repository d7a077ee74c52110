import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorText } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import { DemoFailure } from './failure.js';

type Users = Readonly<Record<string, { readonly role: string }>>;

const USERS: Users = { alice: { role: 'viewer' }, bob: { role: 'editor' } };

/** Writes the users' file that the data source serves. */
export function writeUsers(file: string, users: Users = USERS): void {
  writeFileSync(file, `${JSON.stringify(users, null, 2)}\n`);
}

/** Gives a user another role in the data source. */
export function changeRole(file: string, user: string, role: string): void {
  writeUsers(file, { ...readUsers(file), [user]: { role } });
}

function readUsers(file: string): Users {
  return parseJson(readFileSync(file, 'utf8')) as Users;
}

/** A running data source. */
export interface DataSource {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts it: `/users` is the whole file, `/users/alice` one user of it. The file is read for each
 * request.
 */
export async function startDataSource(file: string): Promise<DataSource> {
  const server = createServer((request, response) => {
    const [, top, user] = (request.url ?? '/').split('/');
    let users: Users;
    try {
      users = readUsers(file);
    } catch (error) {
      // The file may be edited by hand while the demo stays up: the caller hears of it, and tries
      // again.
      send(response, 500, { error: `${file}: ${errorText(error)}` });
      return;
    }
    const found = top !== 'users' ? undefined : user ? users[user] : users;
    if (found === undefined) send(response, 404, { error: 'there are /users and /users/<name>' });
    else send(response, 200, found);
  });
  try {
    await once(server.listen(0, '127.0.0.1'), 'listening');
  } catch (error) {
    throw new DemoFailure(`the data source cannot listen on 127.0.0.1: ${errorText(error)}`, error);
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
}
