cp -r examples/policies ~/policies
git -C ~/policies init --quiet -b main && git -C ~/policies add . && git -C ~/policies commit --quiet -m "First policy"
