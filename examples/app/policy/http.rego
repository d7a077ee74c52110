package app.http

# May this request pass? The input is that of policysync/fastify.
default allow := false

# Who is known gets the list: the application leaves out what they may not read.
allow if {
	input.method in {"GET", "HEAD"}
	input.route == "/documents"
	data.users[input.user]
}

allow if {
	input.method in {"GET", "HEAD"}
	input.route == "/documents/:id"
	data.app.documents.read with input as {"user": input.user, "document": input.params.id}
}
