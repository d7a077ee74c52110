/** JSON text of a list of users as an application has them, of about so many bytes. */
export function usersText(bytes: number): string {
  const users: string[] = [];
  for (let size = 0, at = 0; size < bytes - 60; at++) {
    const user = JSON.stringify({
      id: `user-${at}`,
      name: `Name of number ${at}`,
      email: `user.${at}@example.com`,
      roles: [at % 7 === 0 ? 'admin' : 'member', `team-${at % 40}`],
      active: at % 11 !== 0,
      limits: { requests: 100 + (at % 900), storage: at * 1024 },
    });
    users.push(user);
    size += user.length + 1;
  }
  return `[${users.join(',')}]`;
}
