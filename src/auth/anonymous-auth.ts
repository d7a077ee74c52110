import { Secret } from '../lib/log.js';
import { type Authenticator, bearerToken, type Caller } from './caller.js';

/** A caller of whom nothing is known. */
export const ANONYMOUS: Caller = {
  subject: null,
  peerType: undefined,
  permittedTopics: undefined,
  permittedPaths: undefined,
  claims: {},
  token: undefined,
};

/** Authentication that is off: every caller may do everything, and no claim of a token is believed. */
export function anonymousAuth(): Authenticator {
  return {
    enabled: false,
    authenticate: async (authorization) => {
      const token = bearerToken(authorization);
      return token === undefined ? ANONYMOUS : { ...ANONYMOUS, token: new Secret(token) };
    },
  };
}
