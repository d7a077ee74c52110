package app.documents

# May this user read this document?
default read := false

read if data.documents[input.document].public

read if data.documents[input.document].owner == input.user

read if data.users[input.user].role == "auditor"
