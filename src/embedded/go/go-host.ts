/** A request of `http.send` in a policy. */
export interface HostRequest {
  readonly method: string;
  readonly url: string;
  /** Each header has one or more values. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: Uint8Array;
}

/**
 * The response to a {@link HostRequest}. Redirects are not followed: OPA asks again if the policy
 * wants it.
 */
export interface HostResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: Uint8Array;
}

/** What a policy may ask of the host. Without it, a policy that calls `http.send` is refused. */
export interface GoHost {
  /**
   * A rejection becomes the error of `http.send`. The signal aborts when the policy's own timeout
   * is over.
   */
  fetch(request: HostRequest, signal: AbortSignal): Promise<HostResponse>;
}
