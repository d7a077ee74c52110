/** Where everything of a running demo is. */
export interface DemoPlaces {
  /** Base URLs. */
  readonly server: string;
  readonly client: string;
  readonly engine: string;
  /** The policy repository. */
  readonly repo: string;
  /** Files of the logs. */
  readonly logs: readonly string[];
  /** How `policysync` is called: its name, or Node and a file. */
  readonly command: readonly string[];
  /** Whether curl would use a proxy. */
  readonly isProxied: boolean;
}

/**
 * What a newcomer can try while the demo stays up: titles and lines. The commands stand on lines of
 * their own, indented, and work when they are pasted into a shell (no comments behind them: zsh
 * would take those for arguments).
 */
export function nextSteps(places: DemoPlaces): { readonly title: string; readonly lines: readonly string[] }[] {
  const { server, client, engine, repo, logs, command, isProxied } = places;
  const curl = isProxied ? "curl --noproxy '*' -s" : 'curl -s';
  const json = "-H 'content-type: application/json'";
  const ask = (input: object): string =>
    `${curl} ${engine}/v1/data/app/rbac/allow ${json} -d '${JSON.stringify({ input })}'`;
  const policysync = command.map(quoted).join(' ');
  const carol = `--server-url ${server} --dst-path /users/carol`;
  return [
    {
      title: 'Try next, in another terminal',
      lines: [
        'Watch the fleet in a browser while you try the rest:',
        `  ${server}/ui`,
        'Ask OPA, as an application would:',
        `  ${ask({ user: 'alice', action: 'write' })}`,
        'Publish an update that brings its data along, and ask about the new user:',
        `  ${policysync} publish ${carol} --data '{"role":"admin"}' --reason "carol joins" --wait`,
        `  ${ask({ user: 'carol', action: 'delete' })}`,
        'See who holds what:',
        `  ${policysync} status --server-url ${server}`,
        'Change the policy: everybody may read. The engine follows within seconds:',
        `  printf '\\nallow if input.action == "read"\\n' >> ${quoted(`${repo}/app/rbac.rego`)}`,
        `  git -C ${quoted(repo)} commit --all -m "everybody may read"`,
        `  ${ask({ user: 'guest', action: 'read' })}`,
        'Commit Rego that does not compile: no decision changes, the server says why (below), and the next good commit',
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
export function quoted(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
