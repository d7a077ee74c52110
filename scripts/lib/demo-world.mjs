import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Fatal } from './run.mjs';

const POLICY = `package app.rbac

import rego.v1

# Nothing is allowed unless a rule below says so.
default allow := false

# Users may do what their role allows. Who has which role comes from the data source,
# what a role allows from roles/data.json beside this folder.
allow if {
	role := data.users[input.user].role
	input.action in data.roles[role]
}
`;

/** The rule that the demo commits. */
export const OWNER_RULE = `# The owner of a document may do anything with it.
allow if input.owner == input.user
`;

const ROLES = { viewer: ['read'], editor: ['read', 'write'], admin: ['read', 'write', 'delete'] };
const USERS = { alice: { role: 'viewer' }, bob: { role: 'editor' } };

/** Makes the policy repository; `git(...args)` runs git in its folder. */
export async function makePolicyRepo(folder, git) {
  for (const name of ['app', 'roles']) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'app', 'rbac.rego'), POLICY);
  writeFileSync(join(folder, 'roles', 'data.json'), `${JSON.stringify(ROLES, null, 2)}\n`);
  await git('init', '--quiet');
  // Not "init --initial-branch": git before 2.28 does not know it.
  await git('symbolic-ref', 'HEAD', 'refs/heads/main');
  // For whoever goes on in this folder with commits of their own.
  await git('config', 'user.name', 'PolicySync demo');
  await git('config', 'user.email', 'demo@example.org');
  await git('config', 'commit.gpgsign', 'false');
  await git('add', '.');
  await git('commit', '--quiet', '-m', 'Roles decide');
}

/** Adds the owner's rule and commits it. */
export async function commitOwnerRule(folder, git) {
  writeFileSync(join(folder, 'app', 'rbac.rego'), `${POLICY}\n${OWNER_RULE}`);
  await git('commit', '--quiet', '--all', '-m', 'Owners may do anything with their documents');
}

/** Writes the users' file that the data source serves. */
export function writeUsers(file, users = USERS) {
  writeFileSync(file, `${JSON.stringify(users, null, 2)}\n`);
}

/** Gives a user another role in the data source. */
export function changeRole(file, user, role) {
  writeUsers(file, { ...JSON.parse(readFileSync(file, 'utf8')), [user]: { role } });
}

/** The data source: `/users` is the whole file, `/users/alice` one user of it. The file is read for each request. */
export async function startDataSource(file) {
  const server = createServer((request, response) => {
    const [, top, user] = request.url.split('/');
    const send = (status, body) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`);
    };
    let users;
    try {
      users = JSON.parse(readFileSync(file, 'utf8'));
    } catch (error) {
      // The file may be edited by hand while the demo stays up: the caller hears of it, and tries again.
      send(500, { error: `${file}: ${error.message}` });
      return;
    }
    const found = top !== 'users' ? undefined : user ? users[user] : users;
    if (found === undefined) send(404, { error: 'there are /users and /users/<name>' });
    else send(200, found);
  });
  await new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new Fatal(`The data source cannot listen on 127.0.0.1: ${error.message}`)));
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}
