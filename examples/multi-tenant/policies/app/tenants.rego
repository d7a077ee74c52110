package app.tenants

import rego.v1

# Nothing is allowed unless a rule below says so.
default allow := false

# The tenant comes with each query. What a user may do is looked up below /acl/<tenant> and nowhere else, so that no tenant's
# data ever decides for another one.
allow if {
	is_string(input.tenant)
	input.action in data.acl[input.tenant][input.user]
}
