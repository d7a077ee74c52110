/**
 * The public scenarios of the AuthZEN working group: certification of PDPs, the interop Todo application, and the interop search
 * application. Policies and their form are ours; who may do what is as the working group documents it.
 */

/** A policy repository with one of the scenarios. */
export type ScenarioFiles = Readonly<Record<string, string>>;

/** The certification fixture: decision rules 1 to 8, search requirements S1 to S6. */
export const CERTIFICATION_FILES: ScenarioFiles = {
  'fixture/data.json': JSON.stringify({
    users: { alice: {}, bob: { role: 'admin' } },
    records: { 'record-1': { status: 'active' }, 'record-2': { status: 'archived' } },
    actions: ['read', 'write', 'delete'],
  }),
  'authzen.rego': `package authzen

import rego.v1

default allow := false

allow if permitted(input.subject, input.action, input.resource)

subjects contains {"type": "user", "id": id} if {
  input.subject.type == "user"
  some id, _ in data.fixture.users
  permitted({"type": "user", "id": id}, input.action, input.resource)
}

resources contains {"type": "record", "id": id} if {
  input.resource.type == "record"
  some id, _ in data.fixture.records
  permitted(input.subject, input.action, {"type": "record", "id": id})
}

actions contains {"name": name} if {
  some name in data.fixture.actions
  permitted(input.subject, {"name": name}, input.resource)
}

permitted(subject, action, resource) if {
  action.name == "read"
  known(subject, resource)
}

permitted(subject, action, resource) if {
  action.name == "write"
  known(subject, resource)
  subject.id == "alice"
  status(resource) != "archived"
}

permitted(subject, action, resource) if {
  action.name == "write"
  known(subject, resource)
  role(subject) == "admin"
  status(resource) == "archived"
}

permitted(subject, action, resource) if {
  action.name == "delete"
  known(subject, resource)
  subject.id == "alice"
  action.properties.soft == true
}

known(subject, resource) if {
  subject.type == "user"
  data.fixture.users[subject.id]
  resource.type == "record"
  data.fixture.records[resource.id]
}

role(subject) := object.get(subject, ["properties", "role"], object.get(data.fixture.users, [subject.id, "role"], ""))

status(resource) := object.get(
  resource, ["properties", "status"],
  object.get(data.fixture.records, [resource.id, "status"], ""),
)
`,
};

/** The users of the Todo application: subject id, address, roles. */
const TODO_USERS = {
  rick: [
    'CiRmZDA2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs',
    'rick@the-citadel.com',
    ['admin', 'evil_genius'],
  ],
  morty: ['CiRmZDE2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs', 'morty@the-citadel.com', ['editor']],
  summer: ['CiRmZDI2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs', 'summer@the-smiths.com', ['editor']],
  beth: ['CiRmZDM2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs', 'beth@the-smiths.com', ['viewer']],
  jerry: ['CiRmZDQ2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs', 'jerry@the-smiths.com', ['viewer']],
} as const;

type TodoUser = keyof typeof TODO_USERS;

/** The policy of the Todo application. */
export const TODO_FILES: ScenarioFiles = {
  'todo/data.json': JSON.stringify({
    users: Object.fromEntries(Object.values(TODO_USERS).map(([id, email, roles]) => [id, { email, roles }])),
    roles: {
      viewer: ['can_read_user', 'can_read_todos'],
      editor: ['can_read_user', 'can_read_todos', 'can_create_todo', 'can_update_own', 'can_delete_own'],
      admin: [
        'can_read_user',
        'can_read_todos',
        'can_create_todo',
        'can_update_own',
        'can_delete_own',
        'can_delete_todo',
      ],
      evil_genius: [
        'can_read_user',
        'can_read_todos',
        'can_create_todo',
        'can_update_own',
        'can_delete_own',
        'can_update_todo',
      ],
    },
  }),
  'authzen.rego': `package authzen

import rego.v1

default allow := false

allow if input.action.name in permissions

allow if {
  own := {"can_update_todo": "can_update_own", "can_delete_todo": "can_delete_own"}
  own[input.action.name] in permissions
  input.resource.properties.ownerID == user.email
}

user := data.todo.users[input.subject.id]

permissions contains permission if {
  some role in user.roles
  some permission in data.todo.roles[role]
}
`,
};

/** A request of a scenario and what is expected of it. */
export interface ScenarioCase {
  readonly request: object;
  readonly expected: unknown;
}

const todoOf = (last: string, owner: TodoUser): object => ({
  type: 'todo',
  id: `7240d0db-8ff0-41ec-98b2-34a096273b9${last}`,
  properties: { ownerID: TODO_USERS[owner][1] },
});

const subjectOf = (user: TodoUser): object => ({ type: 'user', id: TODO_USERS[user][0] });

/**
 * The documented decisions of each user: read Beth, read oneself, read todos, create; update Rick's, update another (Rick: Morty's,
 * others: their own), delete Rick's, delete that other one.
 */
const TODO_DECISIONS: Readonly<Record<TodoUser, readonly [other: TodoUser, last: string, decisions: string]>> = {
  rick: ['morty', '1', 'yyyy yyyy'],
  morty: ['morty', '1', 'yyyy nyny'],
  summer: ['summer', '3', 'yyyy nyny'],
  beth: ['beth', '4', 'yyyn nnnn'],
  jerry: ['jerry', '5', 'yyyn nnnn'],
};

/** Requests to the evaluation endpoint. */
export const TODO_EVALUATIONS: readonly ScenarioCase[] = (Object.keys(TODO_DECISIONS) as TodoUser[]).flatMap((user) => {
  const [other, last, decisions] = TODO_DECISIONS[user];
  const asked: readonly (readonly [string, object])[] = [
    ['can_read_user', { type: 'user', id: TODO_USERS.beth[1] }],
    ['can_read_user', { type: 'user', id: TODO_USERS[user][1] }],
    ['can_read_todos', { type: 'todo', id: 'todo-1' }],
    ['can_create_todo', { type: 'todo', id: 'todo-1' }],
    ['can_update_todo', todoOf('2', 'rick')],
    ['can_update_todo', todoOf(last, other)],
    ['can_delete_todo', todoOf('2', 'rick')],
    ['can_delete_todo', todoOf(last, other)],
  ];
  const expected = [...decisions.replace(' ', '')].map((letter) => letter === 'y');
  return asked.map(([name, resource], index) => ({
    request: { subject: subjectOf(user), action: { name }, resource },
    expected: expected[index],
  }));
});

/** Requests to the evaluations endpoint, and their `evaluations`. */
export const TODO_BATCHES: readonly ScenarioCase[] = (
  [
    ['rick', 'jerry', '5', [true, true]],
    ['morty', 'morty', '1', [false, true]],
    ['jerry', 'jerry', '5', [false, false]],
  ] as const
).map(([user, other, last, expected]) => ({
  request: {
    subject: subjectOf(user),
    action: { name: 'can_update_todo' },
    resource: {},
    context: {},
    evaluations: [{ resource: todoOf('2', 'rick') }, { resource: todoOf(last, other) }],
  },
  expected: expected.map((decision) => ({ decision })),
}));

const SEARCH_USERS = {
  alice: { role: 'manager', department: 'Sales' },
  bob: { role: 'employee', department: 'Legal' },
  carol: { role: 'contractor', department: 'Legal' },
  dan: { role: 'manager', department: 'Finance' },
  erin: { role: 'employee', department: 'Finance' },
  felix: { role: 'contractor', department: 'Accounting' },
} as const;

/** Departments of the records 101 to 120; their owners are the users in turn, beginning with Alice. */
const DEPARTMENTS =
  'Legal Legal Legal Accounting Legal Accounting Sales Legal Accounting Sales Accounting Legal Sales Accounting Finance Legal Legal Accounting Legal Accounting';
const NAMES = Object.keys(SEARCH_USERS) as (keyof typeof SEARCH_USERS)[];
const SEARCH_RECORDS = DEPARTMENTS.split(' ').map((department, index) => ({
  id: String(101 + index),
  department,
  owner: NAMES[index % NAMES.length] ?? '',
}));
const SEARCH_ACTIONS = ['view', 'edit', 'delete'] as const;

/** The policy of the search application. */
export const SEARCH_FILES: ScenarioFiles = {
  'search/data.json': JSON.stringify({
    users: SEARCH_USERS,
    records: Object.fromEntries(SEARCH_RECORDS.map(({ id, ...record }) => [id, record])),
  }),
  'authzen.rego': `package authzen

import rego.v1

default allow := false

allow if permitted(input.subject.id, input.action.name, input.resource.id)

subjects contains id if {
  input.subject.type == "user"
  some id, _ in data.search.users
  permitted(id, input.action.name, input.resource.id)
}

resources contains id if {
  input.resource.type == "record"
  some id, _ in data.search.records
  permitted(input.subject.id, input.action.name, id)
}

actions contains name if {
  some name in {"view", "edit", "delete"}
  permitted(input.subject.id, name, input.resource.id)
}

permitted(user, _, record) if data.search.records[record].owner == user

permitted(user, "view", record) if data.search.users[user].department == data.search.records[record].department

permitted(user, "view", record) if {
  data.search.users[user].role == "manager"
  data.search.records[record]
}

permitted(user, "edit", record) if {
  data.search.users[user].role == "manager"
  data.search.users[user].department == data.search.records[record].department
}
`,
};

/** The documented rules of the search application, once more and in another language. */
function maySearch(user: keyof typeof SEARCH_USERS, action: string, record: (typeof SEARCH_RECORDS)[number]): boolean {
  const { role, department } = SEARCH_USERS[user];
  if (record.owner === user) return true;
  const isSame = department === record.department;
  if (action === 'view') return isSame || role === 'manager';
  return action === 'edit' && isSame && role === 'manager';
}

const userOf = (id: string): object => ({ type: 'user', id });
const recordOf = (id: string): object => ({ type: 'record', id });

/** Every search that the demo application can make, by kind; the order of results does not matter. */
export const SEARCHES: Readonly<Record<'subject' | 'resource' | 'action', readonly ScenarioCase[]>> = {
  subject: SEARCH_RECORDS.flatMap((record) =>
    SEARCH_ACTIONS.map((name) => ({
      request: { subject: { type: 'user' }, action: { name }, resource: recordOf(record.id) },
      expected: NAMES.filter((user) => maySearch(user, name, record)).map(userOf),
    })),
  ),
  resource: NAMES.flatMap((user) =>
    SEARCH_ACTIONS.map((name) => ({
      request: { subject: userOf(user), action: { name }, resource: { type: 'record' } },
      expected: SEARCH_RECORDS.filter((record) => maySearch(user, name, record)).map(({ id }) => recordOf(id)),
    })),
  ),
  action: NAMES.flatMap((user) =>
    SEARCH_RECORDS.map((record) => ({
      request: { subject: userOf(user), resource: recordOf(record.id) },
      expected: SEARCH_ACTIONS.filter((name) => maySearch(user, name, record)).map((name) => ({ name })),
    })),
  ),
};
