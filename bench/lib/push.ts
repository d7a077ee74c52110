/** Tells a server of a push to its repository, as GitHub does, which names the commit. Resolves when it has answered 200. */
export async function pushed(serverUrl: string, repoPath: string, after?: string): Promise<void> {
  const response = await fetch(`${serverUrl}/webhook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-github-event': 'push' },
    body: JSON.stringify({
      ref: 'refs/heads/master',
      ...(after !== undefined && { after }),
      repository: { full_name: repoPath.replace(/^\//, '').replace(/\.git$/, '') },
    }),
  });
  const text = await response.text();
  if (response.status !== 200 || !text.includes('"ok"')) {
    throw new Error(`the webhook was answered ${response.status}: ${text}`);
  }
}
