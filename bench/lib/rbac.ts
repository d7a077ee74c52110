/** A policy repository with roles, as many applications have one: 2,000 users, 50 roles. */

const USERS = 2_000;
const ROLES = 50;
const ACTIONS = 8;
const TYPES = 5;

/** Path of the decision. */
export const RBAC_DECISION = 'app/rbac/allow';

const POLICY = `package app.rbac

import rego.v1

default allow := false

allow if {
	some role in data.users[input.user].roles
	some grant in data.roles[role].grants
	grant.action == input.action
	grant.type == input.type
}
`;

/** Files of the repository. */
export const RBAC_REPO: Readonly<Record<string, string>> = {
  'app/rbac.rego': POLICY,
  'data.json': JSON.stringify({
    users: Object.fromEntries(
      Array.from({ length: USERS }, (_, at) => [`u${at}`, { roles: [`r${at % ROLES}`, `r${(at * 7) % ROLES}`] }]),
    ),
    roles: Object.fromEntries(
      Array.from({ length: ROLES }, (_, at) => [
        `r${at}`,
        {
          grants: Array.from({ length: 6 }, (_, grant) => ({
            action: `a${(at + grant) % ACTIONS}`,
            type: `t${(at * grant) % TYPES}`,
          })),
        },
      ]),
    ),
  }),
};

/** Inputs of all users in turn. */
export const RBAC_INPUTS: readonly object[] = Array.from({ length: USERS }, (_, at) => ({
  user: `u${at}`,
  action: `a${at % ACTIONS}`,
  type: `t${at % TYPES}`,
}));
