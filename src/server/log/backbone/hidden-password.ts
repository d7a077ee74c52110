import { causesOf } from '../../../lib/errors.js';
import { decoded } from '../../../lib/net/http-response.js';
import { Secret } from '../../../lib/observe/log.js';
import type { SessionHooks } from './session-keeper.js';

/**
 * Connects without the password of an address in what fails: a server may repeat the command that
 * it did not understand, which has the password in it.
 */
export async function connectHiding<S>(
  urls: readonly URL[],
  hooks: SessionHooks,
  connect: (hooks: SessionHooks) => Promise<S>,
): Promise<S> {
  const given = urls.flatMap(({ password, searchParams }) => [password, searchParams.get('password') ?? '']);
  const secrets = [...given, ...given.map(decoded)].map((password) => new Secret(password));
  const hidden = (error: unknown): unknown => {
    for (const at of causesOf(error)) {
      at.message = secrets.reduce((text, secret) => secret.hideIn(text), at.message);
      at.stack = secrets.reduce((text, secret) => secret.hideIn(text), at.stack ?? '');
      Reflect.deleteProperty(at, 'command'); // of ioredis, with its arguments
    }
    return error;
  };
  try {
    return await connect({ ...hooks, lost: (error) => hooks.lost(hidden(error)) });
  } catch (error) {
    throw hidden(error);
  }
}
