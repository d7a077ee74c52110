/** Header values of a response, as undici and Node give them. */
export type HeaderValues = Readonly<Record<string, string | string[] | undefined>>;

/** The value of one header; of a header that was sent several times, the list form. */
export function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

/**
 * Seconds of a `Retry-After` header (a number or a date, RFC 9110 section 10.2.3), at most `maxSeconds`: a peer with a wrong clock
 * must not silence us. Undefined without a valid header.
 */
export function retryAfterSeconds(
  value: string | string[] | undefined,
  maxSeconds: number,
  nowMs = Date.now(),
): number | undefined {
  const text = headerText(value)?.trim() ?? '';
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - nowMs) / 1000);
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), maxSeconds);
}

/** User name and password of a URL as an `authorization` header; undefined where it has neither. */
export function basicAuthorization({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  return `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`;
}

/** Decodes percent-escapes; returns a text with a lone % as it is. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
