import { usersText } from './users.js';

/** Files of a policy repository: modules as applications have them, about 2 KB each, every one in a package of its own. */
export function modules(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [modulePath(at), moduleText(at, 1)]));
}

/** Data files of a policy repository, about 1.5 KB each, every one in a folder of its own. */
export function dataFiles(count: number): Record<string, string> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => [
      `teams/t${at % 50}/d${at}/data.json`,
      `${JSON.stringify({ team: `team-${at}`, users: JSON.parse(usersText(1_200)) }, undefined, 2)}\n`,
    ]),
  );
}

/** The same with small modules of four rules each. */
export function smallModules(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [modulePath(at), smallModuleText(at, 1)]));
}

export function modulePath(at: number): string {
  return `services/s${at % 20}/m${at}.rego`;
}

/** A module of four rules; `version` is what its rule `version` answers. */
export function smallModuleText(at: number, version: number): string {
  return `package services.s${at % 20}.m${at}

import rego.v1

version := ${version}

default allow := false

allow if input.action in data.grants[input.user]

allow if {
	input.action == "read"
	input.resource.owner == input.user
}
`;
}

/** `version` is what its rule `version` answers. */
export function moduleText(at: number, version: number): string {
  const actions = Array.from(
    { length: 8 },
    (_, action) => `  "action_${action}": {"admin", "team-${(at + action) % 40}"},`,
  );
  return `# Who may do what in service ${at}.
package services.s${at % 20}.m${at}

import rego.v1

version := ${version}

default allow := false

grants := {
${actions.join('\n')}
}

# A member of a team that the action is granted to.
allow if {
	some role in data.users[input.user].roles
	role in grants[input.action]
	not suspended
}

# The owner of a document may always read it.
allow if {
	input.action == "read"
	input.resource.owner == input.user
	not suspended
}

suspended if data.suspended[input.user]

suspended if {
	some until in data.bans[input.user]
	until > input.now
}

reasons contains "suspended" if suspended

reasons contains sprintf("no grant for %v", [input.action]) if not input.action in object.keys(grants)

limits[name] := limit if {
	some name, limit in data.limits.m${at}
	limit > 0
}

visible := {document.id |
	some document in data.documents.s${at % 20}
	document.owner == input.user
}

audit := {
	"service": "m${at}",
	"user": input.user,
	"allowed": allow,
	"reasons": reasons,
}
`;
}
