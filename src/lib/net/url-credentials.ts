/**
 * Whether a URL has a password, or of http and https a user (a token), inside: what contains it is
 * secret.
 */
export function hasCredentials(url: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/]*:[^/]*@|^https?:\/\/[^/]+@/i.test(url);
}
