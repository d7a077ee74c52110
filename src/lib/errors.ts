/**
 * Every error that a user can meet has a stable code. This table is the documentation:
 * `docs/reference/errors.md` is generated from it and a test compares the two.
 */
export const ERROR_CODES = {
  config_invalid: {
    status: 500,
    cause: 'One or more settings have a value that cannot be used.',
    remedy:
      'Correct the settings that the message names; `policysync server --help-all` and `policysync client --help-all` list each with its form, and so does docs/reference/settings.md.',
  },
  usage_invalid: {
    status: 500,
    cause: 'A command was called with arguments that it does not accept.',
    remedy: 'Correct what the message names; `--help` lists commands and options.',
  },
  request_invalid: {
    status: 422,
    cause: 'A request body or query does not have the documented shape.',
    remedy: 'Correct the field named in `detail[].loc`. A number is not accepted for a string.',
  },
  body_too_large: {
    status: 413,
    cause: 'A request body is larger than the limit.',
    remedy:
      'Send a URL entry instead of inline data, or raise SYNC_BODY_LIMIT_BYTES. /token and /webhook have limits of their own.',
  },
  headers_too_large: {
    status: 431,
    cause: 'Request line and headers of a request are larger than a program reads (16 KiB).',
    remedy: 'Send fewer or shorter headers, such as cookies of other programs on the same host, and a shorter query.',
  },
  request_timeout: {
    status: 408,
    cause: 'The headers or the body of a request took longer to arrive than they may.',
    remedy: 'Send the request without pauses; a proxy in front should take in whole requests before it passes them on.',
  },
  unauthorized: {
    status: 401,
    cause: 'The request has no token, or one that is not valid.',
    remedy: 'Send `Authorization: Bearer <token>` with a token of this server.',
  },
  topic_not_permitted: {
    status: 401,
    cause: 'The token is limited to topics, and the update, or the subscription, has others, which the message names.',
    remedy: 'Use topics of the token, or request one whose `permitted_topics` has the missing topics.',
  },
  path_not_permitted: {
    status: 401,
    cause: 'The token is limited to paths, and the update writes to others, which the message names.',
    remedy:
      'Publish at or below the paths of the token, or have one issued whose `permitted_paths` has what is missing.',
  },
  token_limited: {
    status: 401,
    cause: 'The token is limited to topics or paths, and the request concerns all of them.',
    remedy: 'Use a token without `permitted_topics` and `permitted_paths`.',
  },
  token_refused: {
    status: 502,
    cause: 'The sync server did not accept the token of this program; the message has its reason.',
    remedy:
      'Give a token of the type that the message, or `--help` of the command, names: `policysync token --type <type> --out <file>` issues one; pass it by `--token-file` or SYNC_CLIENT_TOKEN. A running client tries again by itself.',
  },
  opal_server: {
    status: 502,
    cause: 'A command asked an OPAL server for what only a PolicySync server has, such as the state of its clients.',
    remedy:
      'Give the address of a PolicySync server (SYNC_SERVER_URL). With an OPAL server use `publish` without --wait, and its own `GET /statistics` (OPAL_STATISTICS_ENABLED) for its clients; see docs/start/coming-from-opal.md.',
  },
  master_token_refused: {
    status: 502,
    cause: 'The sync server issued no token, since the master token is another one than its own.',
    remedy: 'Give the command the value that SYNC_AUTH_MASTER_TOKEN has at the server, as SYNC_MASTER_TOKEN.',
  },
  tokens_not_issued: {
    status: 503,
    cause:
      'The server issues no tokens: it has no keys (503), or no master token that would allow to ask for one (403).',
    remedy: 'Set SYNC_AUTH_PRIVATE_KEY, SYNC_AUTH_PUBLIC_KEY and SYNC_AUTH_MASTER_TOKEN; see docs/how-to/secure.md.',
  },
  origin_refused: {
    status: 403,
    cause: 'A web page of another site wants to change something, or to open the socket.',
    remedy: 'Add its origin to SYNC_ALLOWED_ORIGINS of the server if it is one of yours.',
  },
  host_refused: {
    status: 421,
    cause:
      'A program that listens on loopback was asked under a name that does not belong there (DNS rebinding, or a proxy).',
    remedy: 'Ask by localhost or 127.0.0.1, or add the name to SYNC_ALLOWED_HOSTS of the program.',
  },
  page_not_open: {
    status: 403,
    cause:
      'The live page, or its stream, was asked for under a name that is no loopback one, while authentication is off.',
    remedy:
      'Turn authentication on and sign in with a token, or open the page as http://localhost:7002/ui, through a forwarded port if need be; see docs/how-to/see-the-fleet.md.',
  },
  sign_in_refused: {
    status: 403,
    cause: 'The live page was given a token that cannot sign in; the message says why.',
    remedy: 'Sign in with a token of kind listener, or datasource to act: `policysync token --type listener`.',
  },
  session_not_permitted: {
    status: 403,
    cause: 'Who is signed in to the live page may not do that; a session of a listener token reads only.',
    remedy: 'Sign out, and sign in with a token of the kind that the message names.',
  },
  address_limit: {
    status: 429,
    cause: 'One address has more connections or bodies under way than callers may have that were not let in yet.',
    remedy:
      'Retry after the time in `Retry-After`. Name a load balancer in SYNC_TRUSTED_PROXIES; see SYNC_CONNECTIONS_PER_ADDRESS and SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS.',
  },
  share_used_up: {
    status: 429,
    cause:
      'One token, or one address, has as much under way as one caller may have: responses, bodies, sockets or topics.',
    remedy:
      'Read the responses that are under way, ask for less at a time, and retry after the time in `Retry-After`. Give callers tokens of their own, name a load balancer in SYNC_TRUSTED_PROXIES, or raise the setting that the message names.',
  },
  server_busy: {
    status: 503,
    cause: 'All callers together have as much under way as there may be; a single one may still have a small response.',
    remedy:
      'Retry after the time in `Retry-After`. Add a server instance, or raise the setting that the message names; `GET /instances` shows what is used.',
  },
  webhook_refused: {
    status: 401,
    cause: 'A webhook does not carry the secret, or carries another one.',
    remedy:
      'Set the same secret at the git service and in SYNC_POLICY_REPO_WEBHOOK_SECRET; see docs/how-to/policy-source.md.',
  },
  webhook_unreadable: {
    status: 400,
    cause: 'The payload of a webhook does not say which repository was pushed to.',
    remedy:
      'Send push events of the repository, or set `match_sender_url` in SYNC_POLICY_REPO_WEBHOOK_PARAMS to false.',
  },
  rate_limited: {
    status: 429,
    cause: 'More requests came than the limit allows.',
    remedy: 'Retry after the time in `Retry-After`; see SYNC_RATE_LIMIT and SYNC_CLIENT_LOAD_LIMIT_NOTATION.',
  },
  too_many_connections: {
    status: 503,
    cause: 'The server has as many connections as it may have.',
    remedy: 'Add a server instance, or raise SYNC_MAX_CONNECTIONS and the limit of open files.',
  },
  too_many_watchers: {
    status: 503,
    cause:
      'As many streams of the fleet are open as there may be: in all, of one address, of one token, or with different limits of tokens.',
    remedy:
      'Close pages or `status --watch` that nobody looks at, or ask another server instance; docs/reference/fleet-api.md has the numbers.',
  },
  not_enabled: {
    status: 501,
    cause: 'This part of the server is switched off.',
    remedy: 'Turn on the setting that the message names.',
  },
  listen_failed: {
    status: 500,
    cause: 'The program cannot listen on its address (most often: the port is in use).',
    remedy: 'Stop what uses the port, or choose another host or port.',
  },
  package_missing: {
    status: 500,
    cause:
      'A backbone or a data source is reached by a package that PolicySync does not bring along and that is not installed.',
    remedy:
      'Run the `npm install` command of the message where policysync is installed, with `--global` if that is so installed, and start again.',
  },
  already_stopped: {
    status: 500,
    cause: 'A program that embeds a server or client starts it, or asks it for a decision, after its stop.',
    remedy: 'Make a new one with `createServer` or `createClient`: each is started once.',
  },
  not_found: {
    status: 404,
    cause: 'There is nothing at this address (404), or nothing for this method (405).',
    remedy: 'Compare path and method with docs/reference/http-api.md; `Allow` of a 405 has the methods.',
  },
  policy_not_ready: {
    status: 503,
    cause:
      'The policy source has not been fetched yet, none of its commits can be served, or other server instances are ahead of this one.',
    remedy: 'Retry after the time in `Retry-After`. If it stays, the server log says why the fetch fails.',
  },
  policy_source_none: {
    status: 503,
    cause: 'The server has no policy source: it serves data alone.',
    remedy:
      'Set SYNC_POLICY_REPO_URL or SYNC_POLICY_BUNDLE_URL of the server, or SYNC_POLICY_UPDATER_ENABLED=false of its clients.',
  },
  policy_path_unknown: {
    status: 404,
    cause: 'A requested directory does not exist in the policy repository.',
    remedy: 'Compare SYNC_POLICY_SUBSCRIPTION_DIRS with the directories of the tracked branch.',
  },
  policy_commit_unknown: {
    status: 404,
    cause: 'A commit was asked for that is not in the history of the tracked branch as this server has it.',
    remedy:
      'Give a commit of GET /policy/source, by its whole hash or at least 7 digits. One that was pushed just now is there after the next look: POST /policy/refresh.',
  },
  client_unknown: {
    status: 404,
    cause: 'No client is listed under the name that was given, or the token does not permit to see it.',
    remedy: 'Give a name as `policysync clients` lists it: the id of the client, unless that belongs to another token.',
  },
  client_away: {
    status: 409,
    cause: 'A client was asked to act, or to tell about itself, that is not connected.',
    remedy:
      'Wait until it is back: it then loads what it missed by itself. `policysync status` says since when it is away.',
  },
  client_not_askable: {
    status: 409,
    cause:
      'A client cannot be asked over its connection: it is one of OPAL or of an older version, or its operator has closed that.',
    remedy:
      'Use the API of the client itself (docs/reference/http-api.md), update it, or set SYNC_CLIENT_REMOTE_ACTIONS of the client to true.',
  },
  client_busy: {
    status: 429,
    cause: 'The same client is being asked for something else of this kind, or many clients are being asked.',
    remedy: 'Retry after the time in `Retry-After`.',
  },
  client_no_answer: {
    status: 504,
    cause: 'A connected client has not answered in time, or not as documented. It may have done what it was asked.',
    remedy:
      'Look at its state with `policysync status` and at its log; ask again, or use the API of the client itself.',
  },
  trace_unknown: {
    status: 404,
    cause: 'No data update or policy commit is known by what was given.',
    remedy:
      'Give the seq or the id that a publish returned, or a commit (at least 7 digits) that this server has seen since its start. Superseded updates are kept for SYNC_LOG_RETENTION.',
  },
  git_failed: {
    status: 503,
    cause: 'The git program failed.',
    remedy:
      'Check the address of the repository (SYNC_POLICY_REPO_URL, or what the command was given), the branch and the credentials; the message has what git said.',
  },
  git_timeout: {
    status: 503,
    cause: 'The git program did not finish within its time and was ended.',
    remedy: 'Check that the remote can be reached; raise SYNC_POLICY_REPO_CLONE_TIMEOUT for a large repository.',
  },
  git_silent: {
    status: 503,
    cause: 'A fetch made no progress for longer than it may, and was ended.',
    remedy:
      'Check the git service and the network to it. The server keeps trying, with more patience each time; if the service is that slow, raise SYNC_POLICY_REPO_SILENCE_TIMEOUT.',
  },
  git_busy: {
    status: 503,
    cause: 'As many reads of the policy repository wait as may: many pages ask for commits, files or differences.',
    remedy: 'Retry after the time in `Retry-After`.',
  },
  git_branch_missing: {
    status: 503,
    cause: 'The tracked branch does not exist in the remote repository.',
    remedy:
      'Set SYNC_POLICY_REPO_MAIN_BRANCH, or --branch of a command, to a branch of the repository; the message of a server lists them.',
  },
  bundle_server_failed: {
    status: 503,
    cause: 'The bundle server could not be read (connection, status code or time).',
    remedy: 'Check SYNC_POLICY_BUNDLE_URL and the SYNC_POLICY_BUNDLE_SERVER_ settings. The server keeps trying.',
  },
  bundle_archive_refused: {
    status: 503,
    cause: 'A bundle.tar.gz has an entry that is not accepted, is damaged, or exceeds a limit.',
    remedy: 'Repair the archive; the message names the entry. Until then the last good bundle is served.',
  },
  bundle_unwritable: {
    status: 507,
    cause: 'A bundle.tar.gz cannot be written to the policy folder (for example: the disk is full).',
    remedy:
      'Make room or correct the rights of SYNC_POLICY_REPO_CLONE_PATH or SYNC_STATE_DIR. The server keeps trying.',
  },
  policy_commit_refused: {
    status: 503,
    cause:
      'A commit has a file that cannot be served (not UTF-8, or a data file that is not JSON), or more than one bundle can have, or its policy does not compile (SYNC_POLICY_GATE).',
    remedy:
      'Repair the file that the message names and push again. Until then the last good commit is served. For folders that no client takes together, or engines with built-in functions of their own, see docs/how-to/bad-commits.md.',
  },
  policy_gate_failed: {
    status: 503,
    cause:
      'A commit could not be checked before it is served: the check took too much time or memory, or could not be started.',
    remedy:
      'The server tries again, and serves the former commit meanwhile. Give the machine of the server more memory, or let commits through unchecked with SYNC_POLICY_GATE=warn (docs/how-to/bad-commits.md).',
  },
  state_dir_in_use: {
    status: 500,
    cause: 'Another server uses the same state folder.',
    remedy: 'Stop the other server, or give this one its own SYNC_STATE_DIR.',
  },
  state_dir_unusable: {
    status: 500,
    cause: 'The state folder cannot be made, or the user of the server may not write there.',
    remedy:
      'Give the folder that the message names to the user of the server (chown; `fsGroup` of a pod, `StateDirectory=` of a unit), or name another one in SYNC_STATE_DIR. Trying again does not help.',
  },
  log_unwritable: {
    status: 507,
    cause: 'The update log cannot be written (for example: the disk is full).',
    remedy: 'Make room on the disk of SYNC_STATE_DIR. The update was not accepted; publish it again.',
  },
  log_damaged: {
    status: 500,
    cause: 'The update log cannot be read: it is damaged, or a newer version or another program wrote it.',
    remedy:
      'Restore what the message names, or move the file away: the server then starts an empty log, and clients keep what they have.',
  },
  log_conflict: {
    status: 409,
    cause: 'Another server instance appended to the update log first.',
    remedy: 'No action is needed: the server reads what the other one wrote, and retries.',
  },
  backbone_unavailable: {
    status: 503,
    cause:
      'The backbone that keeps the update log of several instances cannot be reached, or this instance cannot read on in it.',
    remedy:
      'Retry after the time in `Retry-After`, with the same `Idempotency-Key`. What is known is served meanwhile; see SYNC_BROADCAST_URI.',
  },
  clock_differs: {
    status: 500,
    cause:
      'The clock of this machine and that of the backbone, which all server instances share, differ by more than 2 s.',
    remedy:
      'Set both by NTP (`timedatectl` shows whether). Times of the update log are moved to the clock of the server meanwhile; tokens expire by that of whoever verifies them.',
  },
  presence_unavailable: {
    status: 503,
    cause:
      'Server instances cannot tell each other through the backbone who is connected to them, nor ask for each other; the log works.',
    remedy:
      'Correct what the message names: rights, a lock or another use of the presence table, keys or stream (docs/how-to/several-instances.md). The server tries again by itself.',
  },
  backbone_replaced: {
    status: 503,
    cause:
      'The update log in the backbone is not the one that this server has read: it was emptied, restored or has lost rows.',
    remedy:
      'Restart the server: it accepts the log as it is now. The log has a new epoch, so clients catch up by the fold and remove nothing.',
  },
  too_many_patches: {
    status: 409,
    cause: 'A path has more patches than clients could catch up with.',
    remedy: 'Publish a PUT at that path; or raise SYNC_PATCHES_PER_PATH_LIMIT.',
  },
  too_many_topics: {
    status: 409,
    cause: 'An update has a topic that is new to the update log, which has as many topics as it can have.',
    remedy: 'Publish on topics that are in use. A topic for each value of something belongs into the path.',
  },
  inline_data_too_large: {
    status: 413,
    cause: 'The inline data of a data update is larger than the update log accepts.',
    remedy: 'Send a URL entry instead of inline data, or raise SYNC_INLINE_DATA_LIMIT_BYTES.',
  },
  idempotency_conflict: {
    status: 409,
    cause: 'Another data update was published with the same `Idempotency-Key`, which is still remembered.',
    remedy: 'Use a new key for each update, and the same one only for the very same body.',
  },
  not_applied: {
    status: 504,
    cause: 'Not all clients concerned applied a data update within the time that the publisher was ready to wait.',
    remedy:
      'The update is recorded and reaches them all the same: do not publish it again. `policysync status` shows why.',
  },
  condition_met: {
    status: 500,
    cause: 'What `--fail-on` of `status` looks for is so.',
    remedy: 'The lines of `status` say what is refused or failing; docs/how-to/troubleshoot.md has where to look next.',
  },
  demo_failed: {
    status: 500,
    cause: '`policysync demo` could not do one of its steps.',
    remedy: 'Correct what the message names, and run `policysync demo` again.',
  },
  checks_failed: {
    status: 500,
    cause: 'A check of `policysync check` or `policysync doctor` found an error; with `--strict`, or a warning.',
    remedy: 'Follow the remedy below each line that is not in order, then run the command again.',
  },
  frame_invalid: {
    status: 400,
    cause: 'A pub/sub frame does not follow the protocol.',
    remedy: 'Compare with docs/reference/wire-protocol.md. The connection stays open where the protocol allows it.',
  },
  server_unreachable: {
    status: 503,
    cause: 'The sync server does not respond.',
    remedy:
      'Check that the sync server runs at the address in the message, which SYNC_SERVER_URL, `--server-url`, or `--against` of `check` gives. A running client tries again by itself.',
  },
  client_unreachable: {
    status: 503,
    cause: 'The sync client does not respond to a command.',
    remedy:
      'Check that the client runs, and where: `--client-url`, or SYNC_CLIENT_API_SERVER_HOST and SYNC_CLIENT_API_SERVER_PORT.',
  },
  unhealthy: {
    status: 503,
    cause:
      'A health check found a program that does not answer, does not work, or is not ready yet; the message has the reason.',
    remedy:
      'Check that the program runs with the same settings as the health check. `GET /healthcheck` of the server, `GET /healthy` of the client and their logs have the details.',
  },
  tls_failed: {
    status: 502,
    cause: 'No trusted connection could be made: a certificate is not trusted, not valid, or of another name.',
    remedy:
      'Name the authority of the certificate in the setting that the message has, and use the name that the certificate is for; see docs/how-to/secure.md.',
  },
  tls_mismatch: {
    status: 502,
    cause: 'Only one side of a connection speaks TLS.',
    remedy:
      'Begin the address that the message has with http:// where the other side does not speak TLS, and with https:// where it does. If it should speak TLS, give it a certificate; see docs/how-to/secure.md.',
  },
  server_refused: {
    status: 502,
    cause: 'The sync server returned an error.',
    remedy: 'The message has the response; the log of the server, or of a proxy before it, has the reason.',
  },
  answer_too_large: {
    status: 502,
    cause: 'The response of the sync server has more bytes than the client accepts.',
    remedy:
      'Raise SYNC_SERVER_ANSWER_LIMIT_BYTES where policy and inline data are that large. The client keeps trying.',
  },
  fetch_failed: {
    status: 502,
    cause: 'A data source could not be read (connection, status code or time).',
    remedy: 'Check the URL and the headers of the entry. The client keeps trying.',
  },
  fetch_config_invalid: {
    status: 502,
    cause:
      'A data source entry asks for a fetch provider that the client does not have, or in a form that it does not accept.',
    remedy:
      'Correct `config` of the entry as docs/how-to/data-sources.md has it. It is not tried again before it changes.',
  },
  address_refused: {
    status: 502,
    cause:
      'A data source, a callback or a redirect names a place that the client sends nothing to: its own engine or API, a link-local address, or what the settings leave out.',
    remedy:
      'Correct the URL, or open the place with SYNC_FETCH_ALLOW or SYNC_FETCH_DENY; see docs/how-to/secure.md. An entry is not tried again before it changes, unless a name or a redirect led there.',
  },
  fetch_too_large: {
    status: 502,
    cause: 'The document of a data source has more bytes than the limit.',
    remedy: 'Raise SYNC_FETCH_LIMIT_BYTES or make the document smaller.',
  },
  fetch_not_json: {
    status: 502,
    cause: 'The document of a data source is not exactly one JSON value, or is nested too deep.',
    remedy: 'Check that the URL returns JSON and nothing after it, nested at most 10,000 levels deep with its path.',
  },
  spool_unwritable: {
    status: 507,
    cause: 'A fetched document cannot be written to the spool folder (for example: the disk is full).',
    remedy: 'Make room or correct the rights of the folder that the message names. The client keeps trying.',
  },
  engine_not_found: {
    status: 500,
    cause: 'No OPA executable could be found or downloaded.',
    remedy:
      'Put `opa` on PATH, name its path in SYNC_INLINE_ENGINE_EXEC_PATH, download it with `policysync opa get`, or use the engine inside the package: SYNC_ENGINE=embedded.',
  },
  engine_download_failed: {
    status: 500,
    cause: 'The pinned OPA release could not be downloaded whole and with the pinned checksum.',
    remedy: 'Check the network or proxy, or install OPA and put it on PATH.',
  },
  engine_address_in_use: {
    status: 500,
    cause: 'Another program listens at the address of the inline or embedded engine.',
    remedy: 'End that program, or set SYNC_POLICY_STORE_URL to a free port.',
  },
  engine_start_failed: {
    status: 500,
    cause: 'The inline engine ended before its first response; the message has its last lines.',
    remedy: 'Correct SYNC_INLINE_ENGINE_CONFIG and the files that it names.',
  },
  engine_ended: {
    status: 503,
    cause: 'The inline engine ended by itself, or had to be ended.',
    remedy:
      'No action is needed: it is started and filled again. If it repeats, see its last lines in the log, and its memory.',
  },
  engine_artifact_invalid: {
    status: 500,
    cause: 'A file of the embedded engine is missing from the package, or is not the one that belongs to this code.',
    remedy: 'Install the package again; in the repository, `git checkout engine/dist` or `npm run engine:build`.',
  },
  engine_unreachable: {
    status: 503,
    cause: 'The policy engine does not respond.',
    remedy: 'Check that the engine runs at SYNC_POLICY_STORE_URL. The client keeps trying.',
  },
  engine_unauthorized: {
    status: 502,
    cause: 'The policy engine did not accept our credentials, or its authorization policy does not let us in.',
    remedy:
      'Check SYNC_POLICY_STORE_AUTH_TYPE with its settings, and system.authz in the engine. The client keeps trying.',
  },
  engine_auth_failed: {
    status: 502,
    cause: 'The OAuth server gave no token for the policy engine.',
    remedy: 'Check SYNC_POLICY_STORE_AUTH_OAUTH_SERVER, client id and secret. The client keeps trying.',
  },
  engine_refused: {
    status: 502,
    cause: 'The policy engine refused a policy or a document; the message has its reason.',
    remedy: 'Correct the policy or the data. The last good state keeps serving.',
  },
  decision_not_ready: {
    status: 503,
    cause: 'The client cannot decide yet: it has not had policy and data, or its engine lost them and is being filled.',
    remedy:
      'Retry soon. If it stays, `GET /healthy` of the client says what is missing. `onUnavailable` says what the application does meanwhile.',
  },
  decision_timeout: {
    status: 504,
    cause: 'The policy engine did not decide within its time limit. An embedded engine has ended the decision.',
    remedy:
      'Look for what the policy computes over all of a large document, or raise SYNC_EMBEDDED_ENGINE_DECISION_TIMEOUT (`timeoutMs` for an OPA over REST). Other decisions go on.',
  },
  decision_failed: {
    status: 502,
    cause: 'The policy engine could not evaluate a decision; the message has its reason.',
    remedy: 'Correct the policy: for example, rules of one name must not have different values for one input.',
  },
  decision_result_invalid: {
    status: 502,
    cause: 'The result of a decision is not what the parser of the application, or AuthZEN, accepts.',
    remedy:
      'Correct the policy, or the parser that is given to `decide`; docs/how-to/embed.md has what AuthZEN accepts. The message has what is wrong.',
  },
  epoch_differs: {
    status: 409,
    cause: 'The client follows another update log than the one that was asked about, or a server without one.',
    remedy:
      'Take `epoch` and `seq` from the same response of `POST /data/config`, and publish to the server that this client follows.',
  },
  updater_disabled: {
    status: 503,
    cause: 'The client does not update policy or data: its settings say so, or it is disconnected from the server.',
    remedy: 'Set SYNC_POLICY_UPDATER_ENABLED or SYNC_DATA_UPDATER_ENABLED, or connect the client again.',
  },
  callback_failed: {
    status: 502,
    cause: 'A callback did not take a report (connection, status code or time).',
    remedy: 'Check the URL and headers of the callback; the message has its response. The update itself is applied.',
  },
  callback_limit: {
    status: 409,
    cause: 'The client has as many registered callbacks as it may have.',
    remedy: 'Delete unused ones with `DELETE /callbacks/<key>`.',
  },
  offline_mode_off: {
    status: 400,
    cause: 'Connectivity is to be switched, but offline mode is off.',
    remedy: 'Start the client with SYNC_OFFLINE_MODE_ENABLED=true.',
  },
  client_starting: {
    status: 503,
    cause: 'The client is being started: it is not known yet whether it serves its backup.',
    remedy: 'Retry after the time in `Retry-After`. If it stays, the engine does not come up; see the client log.',
  },
  backup_invalid: {
    status: 500,
    cause: 'The backup file cannot be used: damaged, cut short, of another version, empty, or refused by the engine.',
    remedy:
      'No action is needed: the client follows the server and writes a new one; the old file is kept beside it with the ending `.refused`.',
  },
  backup_unwritable: {
    status: 507,
    cause: 'The backup cannot be written (for example: the disk is full, or the folder has other rights).',
    remedy: 'Make room or correct the rights of the folder of SYNC_STORE_BACKUP_PATH. The last good backup stays.',
  },
  publish_failed: {
    status: 502,
    cause: 'The server did not accept a data update.',
    remedy: "The message has the server's response.",
  },
  unexpected: {
    status: 500,
    cause: 'Something failed that no other code covers.',
    remedy: 'The message has what is known. If that is not enough, report it with the lines of the log around it.',
  },
} as const;

/** A code of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** What {@link SyncError} carries besides its message. */
export interface SyncErrorOptions {
  /** The error that led to this one. */
  cause?: unknown;
  /** True where the same call may succeed later with no change. Default false. */
  retryable?: boolean;
  /** HTTP status, where it differs from the table's. */
  status?: number;
  /** Seconds for a `Retry-After` header. */
  retryAfterSeconds?: number;
  /** A structured `detail` for HTTP responses. Default: the message. */
  detail?: unknown;
  /**
   * What HTTP callers are told who may not know why something behind the program fails. Default:
   * the cause in the table.
   */
  outside?: string;
}

/**
 * The one error class of this project: a stable code, a message that names the thing, and the
 * cause.
 */
export class SyncError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;
  readonly retryAfterSeconds: number | undefined;
  readonly detail: unknown;
  readonly outside: string | undefined;

  constructor(code: ErrorCode, message: string, options: SyncErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SyncError';
    this.code = code;
    this.status = options.status ?? ERROR_CODES[code].status;
    this.retryable = options.retryable ?? false;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.detail = options.detail;
    this.outside = options.outside;
  }
}

/** An error and its causes, outermost first: at most ten, so that a circular chain ends. */
export function* causesOf(error: unknown): Generator<Error> {
  let at = error;
  for (let depth = 0; at instanceof Error && depth < 10; depth++, at = at.cause) yield at;
}

/** A message of OpenSSL, between numbers, functions and places of its source. */
const OPENSSL = /^[0-9A-F]+:error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):.*$/s;

function plain(message: string): string {
  return message.trimEnd().replace(OPENSSL, '$1');
}

/** One line for people: the message and the messages of its causes. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const parts: string[] = [];
  for (const at of causesOf(error)) {
    const text =
      at instanceof AggregateError && at.message === '' ? at.errors.map(errorText).join('; ') : plain(at.message);
    if (text !== '' && !parts.some((part) => part.includes(text))) parts.push(text);
  }
  return parts.slice(0, 5).join(': ') || error.name;
}

/** The first of an error and its causes that has a code; undefined if none has. */
function knownError(error: unknown): SyncError | undefined {
  return [...causesOf(error)].find((at) => at instanceof SyncError);
}

/**
 * The code of an error: its own, or that of the first of its causes that has one; `unexpected`
 * where none has.
 */
export function errorCode(error: unknown): ErrorCode {
  return knownError(error)?.code ?? 'unexpected';
}

/** The first thing that is wrong with a value, and where: `entries.0.url: ...`. */
export function firstIssue({
  issues: [first],
}: {
  issues: readonly { path: readonly PropertyKey[]; message: string }[];
}): string {
  return first === undefined ? '' : `${first.path.map(String).join('.')}: ${first.message}`;
}

/** See {@link failureFields}. */
interface FailureFields {
  readonly error: string;
  readonly code: ErrorCode;
  readonly remedy: string;
  /** The error itself, for its stack. */
  readonly err?: unknown;
}

/**
 * The fields of every log line of level `warn` or above about a failure: `log.warn({
 * ...failureFields(error), more }, 'what failed')`. `stack`: with the stack of an error that has no
 * code, which may be a bug.
 */
export function failureFields(error: unknown, unexpected?: 'stack'): FailureFields {
  const code = errorCode(error);
  const fields = { error: errorText(error), code, remedy: ERROR_CODES[code].remedy };
  return code === 'unexpected' && unexpected === 'stack' ? { ...fields, err: error } : fields;
}

/** Errors that only a change of the configuration corrects: the program ends with exit code 2. */
const CONFIGURATION_CODES: ReadonlySet<ErrorCode> = new Set([
  'usage_invalid',
  'config_invalid',
  'package_missing',
  'engine_start_failed',
  'state_dir_unusable',
]);

/**
 * Why a program cannot listen where its settings say, whatever else runs: not an address of this
 * machine, or not permitted.
 */
const WRONG_ADDRESS: ReadonlySet<unknown> = new Set(['EADDRNOTAVAIL', 'EACCES', 'ENOTFOUND', 'EINVAL']);

/**
 * Whether only a change of the configuration corrects an error, so that another start would fail in
 * the same way.
 */
export function isConfigurationError(error: unknown): boolean {
  const known = knownError(error);
  if (known === undefined) return false;
  if (CONFIGURATION_CODES.has(known.code)) return true;
  return known.code === 'listen_failed' && WRONG_ADDRESS.has((known.cause as { code?: unknown } | undefined)?.code);
}
