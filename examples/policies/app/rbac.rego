package app.rbac

import rego.v1

# Nothing is allowed unless a rule below says so.
default allow := false

# Users may do what their role allows. What a role allows is in roles/data.json;
# which user has which role is data that is published: data.users.
allow if {
	role := data.users[input.user].role
	input.action in data.roles[role]
}
