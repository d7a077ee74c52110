# The policy of the page is in the repository, and two people are editors.
mkdir -p ~/policies/authzen && cat "$BLOCKS/rego-1" "$BLOCKS/rego-3" > ~/policies/authzen/authzen.rego
git -C ~/policies add . && git -C ~/policies commit -qm "The rules of this page"
policysync publish --dst-path /users --data '{"ann":{"role":"editor"},"carol":{"role":"editor"}}'
