/**
 * What a newcomer can try while the demo stays up: titles and lines. The commands stand on lines of their own, indented,
 * and work when they are pasted into a shell (no comments behind them: zsh would take those for arguments).
 */
export function nextSteps({ server, client, engine, repo, logs, cli, isProxied }) {
  const curl = isProxied ? "curl --noproxy '*' -s" : 'curl -s';
  const json = "-H 'content-type: application/json'";
  const ask = (input) => `${curl} ${engine}/v1/data/app/rbac/allow ${json} -d '${JSON.stringify({ input })}'`;
  const carol = { url: '', topics: ['policy_data'], dst_path: '/users/carol', data: { role: 'admin' } };
  const update = JSON.stringify({ entries: [carol], reason: 'carol joins' });
  const publish = `node ${quoted(cli)} publish-data-update --server-url ${server} -t policy_data`;
  return [
    {
      title: 'Try next, in another terminal',
      lines: [
        'Ask OPA, as an application would:',
        `  ${ask({ user: 'alice', action: 'write' })}`,
        'Publish an update that brings its data along, and ask about the new user:',
        `  ${curl} ${server}/data/config ${json} -d '${update}'`,
        `  ${ask({ user: 'carol', action: 'delete' })}`,
        'The same with the command:',
        `  ${publish} --dst-path /users/carol --data '{"role":"viewer"}' --reason "carol changes jobs"`,
        'Change the policy: everybody may read. The engine follows within seconds:',
        `  printf '\\nallow if input.action == "read"\\n' >> ${quoted(`${repo}/app/rbac.rego`)}`,
        `  git -C ${quoted(repo)} commit --all -m "everybody may read"`,
        `  ${ask({ user: 'guest', action: 'read' })}`,
        'Commit Rego that does not compile: no decision changes, the client says why (below), and the next good commit',
        'heals it.',
      ],
    },
    {
      title: 'Look inside',
      lines: [
        'The client: what it holds, and what fails:',
        `  ${curl} ${client}/healthy`,
        'The server: which commit it serves, and the last place of its update log:',
        `  ${curl} ${server}/healthcheck`,
        'What a client has to load that starts now:',
        `  ${curl} ${server}/data/config`,
        'What OPA holds:',
        `  ${curl} ${engine}/v1/data/users`,
        'What both have to say:',
        `  tail -n 20 ${logs.map(quoted).join(' ')}`,
      ],
    },
  ];
}

/** For a shell, where the text needs it. */
function quoted(text) {
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
