import { Secret } from '../lib/log.js';
import { type Authenticator, bearerToken } from './caller.js';

/** Authentication that is off: everyone may do everything, and nothing that a caller says of itself is believed. */
export function anonymousAuth(): Authenticator {
  return {
    enabled: false,
    authenticate: async (authorization) => {
      const token = bearerToken(authorization);
      return {
        subject: null,
        peerType: undefined,
        permittedTopics: undefined,
        permittedPaths: undefined,
        claims: {},
        token: token === undefined ? undefined : new Secret(token),
      };
    },
  };
}
