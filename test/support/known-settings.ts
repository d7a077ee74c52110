import { CLIENT_SETTINGS, SERVER_SETTINGS } from './library.js';

/** Variables of a configuration file, and of commands, that are no settings themselves. */
const OTHERS = ['SYNC_CONFIG', 'SYNC_MASTER_TOKEN', 'SYNC_MASTER_TOKEN_FILE'];

/** Names of the environment that a server or a client of the package reads; a secret has one more, for the file that contains it. */
export const KNOWN_SETTINGS: Readonly<Record<'server' | 'client', ReadonlySet<string>>> = {
  server: namesOf(SERVER_SETTINGS),
  client: namesOf(CLIENT_SETTINGS),
};

/** Settings that are secret: their values belong into files. */
export const SECRET_SETTINGS: ReadonlySet<string> = new Set(
  [SERVER_SETTINGS, CLIENT_SETTINGS].flatMap((settings) =>
    Object.values(settings).flatMap(({ env, secret }) => (secret ? [env] : [])),
  ),
);

function namesOf(settings: typeof SERVER_SETTINGS | typeof CLIENT_SETTINGS): ReadonlySet<string> {
  const names = Object.values(settings).flatMap(({ env, secret }) => (secret ? [env, `${env}_FILE`] : [env]));
  return new Set([...names, ...OTHERS]);
}

/** The names in a text that look like settings and that neither program has. */
export function unknownSettings(text: string): string[] {
  const { server, client } = KNOWN_SETTINGS;
  const named = [...new Set(text.match(/\b(?:SYNC|OPAL)_[A-Z0-9_]+\b/g))];
  return named.filter((name) => !server.has(name) && !client.has(name));
}
