printf '\n# Mallory may do everything.\nallow if input.user == "mallory"\n' >> ~/policies/app/rbac.rego
git -C ~/policies commit --quiet --all --message "Mallory may do everything"
curl -s http://127.0.0.1:8181/v1/data/app/rbac/allow -d '{"input":{"user":"mallory","action":"write"}}'     # {"result":true}
