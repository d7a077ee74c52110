# A policy repository with a test.
cd ~/policies
cat > app/rbac_test.rego <<'REGO'
package app.rbac_test

import rego.v1

test_nothing_without_a_role if not data.app.rbac.allow with input as {"user": "nobody", "action": "read"}
REGO
